"""From a path or a text to a module: which provider serves it, and when the compiler is imported."""

from __future__ import annotations

import os
from functools import cache

from tessera.bundle import BundleReader
from tessera.cache import DiskCache, default_directory, unused_folder
from tessera.devices import CPU, Gpu, find_device
from tessera.errors import (
    NO_COMPILER,
    NOT_TEXT,
    UNREADABLE_FILE,
    WRONG_ARGUMENTS,
    TesseraWarning,
    failure,
    kind_of,
    path_of,
    reason_of,
)
from tessera.files import read_file
from tessera.interface import Compiler, Source
from tessera.module import Module
from tessera.signing import content, trusted_content
from tessera.store import Store
from tessera.toolchain import toolchain_key

BUNDLE_SUFFIX = ".tessb"


def load_module(
    path: str | os.PathLike[str],
    *,
    release: bool = False,
    debug: bool = False,
    trusted: object = None,
    device: object = CPU,
) -> Module:
    gpu = find_device(device)
    file = path_of(path)
    name, suffix = os.path.splitext(os.path.basename(file))
    try:
        data = read_file(file)
    except (OSError, ValueError) as error:
        raise failure(UNREADABLE_FILE, f"cannot read `{file}`: {reason_of(error)}") from None
    if trusted is not None:
        if suffix != BUNDLE_SUFFIX:
            raise failure(WRONG_ARGUMENTS, f"`trusted` is for bundles, and `{file}` is a source")
        data = trusted_content(data, file, trusted)
    if suffix == BUNDLE_SUFFIX:
        if debug:
            raise failure(WRONG_ARGUMENTS, f"`debug` is for sources, and `{file}` is built")
        return Module(name, BundleReader(content(data), file), gpu)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise failure(NOT_TEXT, f"`{file}` is not UTF-8 text") from None
    return module_of(name, Source(file, text, release, debug), gpu)


def module_of(name: str, source: Source, gpu: Gpu | None = None) -> Module:
    if not isinstance(source.text, str):
        raise failure(WRONG_ARGUMENTS, f"a program is text, not {kind_of(source.text)}")
    try:
        toolchain = toolchain_key()
    except ModuleNotFoundError as error:
        raise failure(NO_COMPILER, f"cannot compile `{source.path}`: {error}") from None
    if warning := unused_folder():
        import warnings

        warnings.warn(warning, TesseraWarning, stacklevel=3)
    return Module(name, Store(source, compiler, DiskCache(default_directory()), toolchain), gpu)


@cache
def compiler() -> Compiler:
    from tesserac.base.collecting import collection_paused

    with collection_paused():  # hundreds of modules, and nothing in them is garbage
        from tesserac.embed.compiler import runtime_compiler

    return runtime_compiler()
