"""Generate the Python modules of every `.proto` in this package, or check that they are current.

`python -m protos.generate` writes beside each `.proto` its messages (`_pb2.py`), their types (`_pb2.pyi`), its stubs
and servicers (`_pb2_grpc.py`) and theirs (`_pb2_grpc.pyi`). With `--check` nothing is written: each file that would
change is named, and the exit code is 1. Needs the development dependencies (grpcio-tools, mypy-protobuf); output is a
function of their locked versions.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


class GenerationFailed(Exception):
    """The compiler refused a `.proto` (it has said why on stderr), or one of its plugins is not installed."""


def sources() -> tuple[Path, ...]:
    """Every `.proto` of the package, relative to the project's root and in fixed order."""
    return tuple(sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.proto")))


def outputs(source: Path) -> tuple[Path, ...]:
    """Files generated from `source`, relative to the project's root."""
    return tuple(source.with_name(source.stem + suffix) for suffix in SUFFIXES)


def generate_into(directory: Path) -> None:
    """Generate everything below `directory`, in the layout of the project. Raises GenerationFailed."""
    # Imported here: --help and the checks of other tools should not need the compiler.
    from grpc_tools import protoc  # type: ignore[import-untyped]

    plugin = shutil.which("protoc-gen-mypy_grpc", path=str(Path(sys.executable).parent)) or shutil.which(
        "protoc-gen-mypy_grpc"
    )
    if plugin is None:
        raise GenerationFailed("protoc-gen-mypy_grpc is not installed: it comes with mypy-protobuf")
    arguments = [
        "protoc",
        f"-I{ROOT}",
        f"--plugin=protoc-gen-mypy_grpc={plugin}",
        f"--python_out={directory}",
        f"--pyi_out={directory}",
        f"--grpc_python_out={directory}",
        f"--mypy_grpc_out=quiet:{directory}",
        *(str(ROOT / source) for source in sources()),
    ]
    if protoc.main(arguments) != 0:
        raise GenerationFailed("protoc failed")


def stale(fresh: Path) -> tuple[Path, ...]:
    """Name the generated files in the project that differ from those below `fresh`, or are missing."""
    return tuple(
        output
        for source in sources()
        for output in outputs(source)
        if not (ROOT / output).is_file() or (ROOT / output).read_bytes() != (fresh / output).read_bytes()
    )


def main(arguments: list[str] | None = None) -> int:
    """Write what is stale, or with `--check` only name it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m protos.generate", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is stale")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        try:
            generate_into(fresh)
        except GenerationFailed as error:
            sys.stderr.write(f"{error}\n")
            return 1
        changed = stale(fresh)
        if check:
            for output in changed:
                sys.stderr.write(f"{output}: stale; run python -m protos.generate\n")
            return 1 if changed else 0
        for output in changed:
            (ROOT / output).write_bytes((fresh / output).read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
