"""E04xx: dtypes and precision policies."""

from tesserac.diag.diagnostic import Code

E0401 = Code("E0401", "two policies meet in {operation}: {left} and {right}")
E0402 = Code("E0402", "{left} {operation} {right} needs a decision")
E0403 = Code("E0403", "{literal} cannot be {article} {dtype}")
E0404 = Code("E0404", "{operation} of {dtype} needs an accumulation type")
E0405 = Code("E0405", "{operation} does not work on {dtype}")
E0406 = Code("E0406", "{operation} of plain numbers has no dtype")
E0407 = Code("E0407", "expected {expected}, found {found}")
E0408 = Code("E0408", "invalid precision policy: {problem}")
E0409 = Code("E0409", "{operation} does not work on scaled values")
E0415 = Code("E0415", "a cast from {source} to {target} would lose the imaginary part")
E0416 = Code("E0416", "the {had} bits of {source} cannot be read as {target}, which has {wanted}")
E0417 = Code("E0417", "invalid pattern: {problem}")
E0418 = Code("E0418", "{axis} of the pattern does not fit: {relation}")

W0401 = Code("W0401", "{operation} would accumulate in {dtype}")
W0403 = Code("W0403", "`{name}` would lose precision with these arguments")
W0402 = Code("W0402", "fp8 {operation} has neither scale nor saturation")
W0404 = Code("W0404", "{operation} can overflow {dtype}: {reason}")
W0405 = Code("W0405", "{what} loses bits in {dtype}: {reason}")
