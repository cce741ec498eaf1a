"""Projects: `tessera.toml`, where modules are found, and what is said of mistakes in either, to the letter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.project.manifest import read_project
from tests.conftest import Golden
from tests.support.message_rules import assert_all_read_well
from tests.support.paths import CASES as PROGRAMS

CASES = PROGRAMS / "projects"
_FILE = re.compile(r"^=== (\S+)\n", re.MULTILINE)

CODE = "def twice(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"
USE = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return {name}(x)\n"


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(cli.compiler, "tesserac", ["check", *arguments])
    said = capsys.readouterr()
    return status, said.out + said.err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", sorted(CASES.glob("*.files")), ids=lambda path: path.stem)
def test_what_is_said(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """A case is several files, each after a line `=== name`; its message is what `check` says in the first's folder."""
    _, *parts = _FILE.split(path.read_text(encoding="utf-8"))
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    write(tmp_path, files)
    monkeypatch.chdir((tmp_path / next(iter(files))).parent)
    _, said = checked(capsys)
    assert "Traceback" not in said and max(map(len, said.splitlines())) <= 100
    assert_all_read_well(said)
    golden.check(path.with_suffix(".txt"), said)


PROJECT = '[project]\nname = "vision"\nversion = "0.1.0"\nsources = ["src", "more"]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(
        tmp_path,
        {
            "app/tessera.toml": PROJECT + '\n[dependencies]\nlayers = { path = "../lib" }\n',
            "app/src/main.tess": "from parts.block import twice\n\n" + USE.format(name="twice"),
            "app/src/parts/block.tess": "from .inner import twice as twice\n",
            "app/src/parts/inner.tess": CODE,
            "app/more/tools.tess": CODE,
            "lib/tessera.toml": '[project]\nname = "layers"\nsources = ["code"]\n',
            "lib/code/__init__.tess": "from attention.head import twice as twice\n",
            "lib/code/attention/head.tess": CODE,
        },
    )
    monkeypatch.chdir(tmp_path / "app")
    return tmp_path / "app"


def test_a_project_is_checked_without_naming_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys) == (0, "4 files checked: no mistakes\n")
    assert checked(capsys, "src/parts") == (0, "2 files checked: no mistakes\n")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from tools import twice", "twice"),
        ("import tools", "tools.twice"),
        ("from parts import block", "block.twice"),
        ("from parts import inner as i, block", "i.twice"),
        ("from . import tools2", "tools2.twice"),
        ("from .tools2 import twice", "twice"),
        ("from vision.parts.inner import twice", "twice"),
        ("from layers import twice", "twice"),
        ("import layers", "layers.twice"),
        ("import layers.attention.head as head", "head.twice"),
        ("from layers.attention import head", "head.twice"),
    ],
)
def test_ways_to_import(project: Path, capsys: pytest.CaptureFixture[str], line: str, name: str) -> None:
    write(project, {"src/tools2.tess": CODE, "src/user.tess": f"{line}\n\n" + USE.format(name=name)})
    status, said = checked(capsys, "src/user.tess")
    if ", block" not in line:
        assert (status, said) == (0, "1 file checked: no mistakes\n")
    assert status == 0


def test_a_file_outside_of_the_source_folders_sees_its_neighbours(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use = USE.format(name="again").replace("(x)\n", "(twice(x))\n")
    text = f"from beside import twice\nfrom tools import twice as again\n\n{use}"
    write(project, {"tests/beside.tess": CODE, "tests/one.tess": text})
    assert checked(capsys, "tests/one.tess") == (0, "1 file checked: no mistakes\n")


def test_no_project_and_no_file_is_a_mistake_of_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, said = checked(capsys)
    assert status == 2 and "tessera.toml" in said


def test_what_a_project_file_says(project: Path) -> None:
    read = read_project(str(project / "tessera.toml"))
    assert (read.name, read.version, read.diagnostics) == ("vision", "0.1.0", ())
    assert read.sources == (str(project / "src"), str(project / "more"))
    assert read.dependencies["layers"].name == "layers"


def test_a_project_file_that_changes_is_read_again(project: Path) -> None:
    from tesserac.driver.session import Session

    session = Session()
    path = str(project / "src/user.tess")
    write(project, {"src/user.tess": "from tools import twice\n\n" + USE.format(name="twice")})
    source = session.read(path)
    assert not session.analyse(source).diagnostics and not session.check(source).diagnostics  # type: ignore[arg-type]
    (project / "tessera.toml").write_text(PROJECT.replace(', "more"', ""), encoding="utf-8")
    found = [[d.code for d in said.diagnostics] for said in (session.check(source), session.analyse(source))]  # type: ignore[arg-type]
    assert found == [["E0209"], ["E0209"]]


def test_an_import_without_a_name_is_one_mistake(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "util.tess").write_text("def twice(x: Tensor[N, f32]): return x * 2.0\n")
    main = tmp_path / "main.tess"
    main.write_text("import lib.util\ndef f(x: Tensor[N, f32]): return lib.util.twice(x)\n")
    found = Session().check(SourceFile(str(main), main.read_text())).diagnostics
    assert [d.code for d in found] == ["E0209"]


@pytest.mark.parametrize(
    ("line", "code"), [('sources = ["src"', "E0940"), ('source = ["src"]', "E0941"), ('sources = ["scr"]', "E0943")]
)
def test_a_mistake_in_the_project_file_is_one_mistake(
    line: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not found because of it is not told; a module beside the file is found or not without it."""
    project = f'[project]\nname = "vision"\nversion = "0.1.0"\n{line}\n'
    program = "from help import twice\n" + USE.format(name="twice")
    write(tmp_path, {"tessera.toml": project, "src/help.tess": CODE, "main.tess": program})
    _, said = checked(capsys, str(tmp_path / "main.tess"))
    assert re.findall(r"E\d{4}", said) == [code]
    write(tmp_path, {"main.tess": "from .nowhere import twice\n" + USE.format(name="twice")})
    _, said = checked(capsys, str(tmp_path / "main.tess"))
    assert re.findall(r"E\d{4}", said) == [code, "E0209"]
