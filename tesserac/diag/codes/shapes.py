"""E03xx: sizes that do not fit."""

from tesserac.diag.diagnostic import Code

E0301 = Code("E0301", "cannot contract {left} with {right}")
E0302 = Code("E0302", "{left} would be {verb} along {right}")
E0303 = Code("E0303", "this {noun} makes an outer product of {unit} with {extended}")
E0304 = Code("E0304", "reshape changes the number of elements: {source} is not {result}")
E0305 = Code("E0305", "reshape moves data between dims: {source} cannot become {result}")
E0306 = Code("E0306", "no argument tells the size `{name}`")
E0307 = Code("E0307", "{symbol} is {first} and {second} in one call")
E0308 = Code("E0308", "expected {expected}, found {found}")
E0309 = Code("E0309", "`{fact}` does not hold in this call")
E0310 = Code("E0310", "no dim named {name} in {operand}")
E0311 = Code("E0311", "shapes: {problem}")
E0312 = Code("E0312", "{symbol} is in the result only, so no argument gives its size")
E0313 = Code("E0313", "index {index} is out of range for a dim of size {size}")
E0314 = Code("E0314", "invalid axis: {problem}")
E0315 = Code("E0315", "invalid size: {problem}")
E0316 = Code("E0316", "the sizes here are too complex to check")
E0317 = Code("E0317", "`{function}` becomes {count} operators, more than {limit}")
E0320 = Code("E0320", "label `{letter}` stands for both {first} and {second}")
E0321 = Code("E0321", "{rule}, but {first} is not {second}")
E0322 = Code("E0322", "{fact} contradicts {others}")

W0301 = Code("W0301", "`{name}` runs along {dim}, {role}")
W0302 = Code("W0302", "weights that sum to 1 along {normal} are summed along {contracted}")
W0303 = Code("W0303", "every {dim} of one is read for every {dim} of the other", alone=True)
W0304 = Code("W0304", "labels `{first}` and `{second}`, both {dim}, are summed apart from each other")
