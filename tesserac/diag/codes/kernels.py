"""E05xx: kernels and schedules."""

from tesserac.diag.diagnostic import Code

E0501 = Code("E0501", "`{name}` works on a block of a kernel, and this is not in one")
E0502 = Code("E0502", "this is not a block of {of}")
E0503 = Code("E0503", "{block} would cut two dims: {first} and {second}")
E0504 = Code("E0504", "the result has no dim {block}, so no program has a block of it of its own")
E0505 = Code("E0505", "{block} is the size of no block: the kernel loads nothing with it")
E0506 = Code("E0506", "`{name}` has leading dims {own}, another parameter {other}")
E0507 = Code("E0507", "invalid setting of a schedule: {problem}")
E0508 = Code("E0508", "invalid decorator: {problem}")
E0509 = Code("E0509", "`{kernel}` is not what it implements: {difference}")
E0511 = Code("E0511", "the result depends on {block}: `{expression}` {how}")
E0513 = Code("E0513", "this schedule is impossible: {problem}")
E0514 = Code("E0514", "the schedule cache `{path}` is damaged: {problem}")
E0515 = Code("E0515", "this tile has the size {block} outside the loop over its blocks; the last may be smaller")
E0516 = Code("E0516", "this schedule has blocks {block} of {given}, and `{kernel}` means blocks of {size}")
E0520 = Code("E0520", "this is not the number of a block")
E0521 = Code("E0521", "this number counts blocks of size {block}")
E0522 = Code("E0522", "a tile is stored once, after the loops that make it")
E0523 = Code("E0523", "`{name}` is stored in one branch only")
E0580 = Code("E0580", "`{function}` has an instruction for {arch} that the code generator may not take")
E0581 = Code("E0581", "no code of kernel `{kernel}` for {arch}: {reason}")
