"""E0910-E0939: compiled code that cannot be loaded or called. The runtime, which stands alone, raises them."""

from tesserac.diag.diagnostic import Code

E0910 = Code("E0910", "cannot use the compiled file `{path}`: {reason}")
E0911 = Code("E0911", "compiled for {built}, but this machine is {here}")
E0912 = Code("E0912", "the system refused {what}: {reason}")
E0913 = Code("E0913", "module `{module}` has no function `{name}`")
E0914 = Code("E0914", "`{setting}` must be {rule}, not `{value}`")
E0915 = Code("E0915", "cannot compile `{path}`: the compiler is not installed")
E0920 = Code("E0920", "`{function}` takes {expected}, but {given} were given")
E0921 = Code("E0921", "argument `{name}` of `{function}` is {kind}, not an array")
E0922 = Code("E0922", "argument `{name}` of `{function}` has dtype {dtype}")
E0923 = Code("E0923", "argument `{name}` of `{function}` has {rank} dims")
E0924 = Code("E0924", "argument `{name}` of `{function}` has size {size} in dim {axis}, but `{rule}` is {value}")
E0925 = Code("E0925", "`{function}` needs {rule}, but the sides are {left} and {right}")
E0926 = Code("E0926", "no memory for {what}")
E0927 = Code("E0927", "`{operator}` in `{function}`: index {index} is out of range for a dim of size {size}")
E0928 = Code("E0928", "the param `{name}` has no value")
E0929 = Code("E0929", "cannot read the weights in `{path}`: {reason}")
E0930 = Code("E0930", "no NVIDIA GPU can be used: {reason}")
E0931 = Code("E0931", "`{function}` was built for {built}, but the GPU is {here}")
E0932 = Code("E0932", "`{function}` failed on the GPU: {reason}")
W0901 = Code("W0901", "`{function}` is compiled for the {count}th set of compile-time arguments")
