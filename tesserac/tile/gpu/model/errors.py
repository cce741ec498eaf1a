"""What the lowering to a GPU cannot do. A missing rule is an error, never a guess."""


class LoweringError(Exception):
    """The kernel needs something that no rule here provides; the text says what."""


class NoRolesError(LoweringError):
    """Warps of one role would wait for all threads of the block, of which others never come."""


class NotSelectableError(LoweringError):
    """An instruction that LLVM is not known to take: the process might end instead of compiling it."""
