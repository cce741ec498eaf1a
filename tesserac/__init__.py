"""The compiler. Its modules come from one file where an earlier process has left one."""

from tesserac.base.bytecode import find_modules_at_once

find_modules_at_once()
