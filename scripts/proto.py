"""Generates the Python stubs from proto/; with --check tells which of the committed ones are stale.

Both ways generate everything afresh into a temporary folder and compare; they differ only in what
they do about a difference. So a stub whose proto is gone counts as stale, and is removed.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
PROTOS = ROOT / "proto"
STUBS = ROOT / "client/python"
PACKAGE = "baton/v1"


def generate(into: Path) -> None:
    """Writes messages, services and the types of both; services for grpc.aio alone."""
    protos = sorted((PROTOS / PACKAGE).glob("*.proto"))
    services = [proto for proto in protos if re.search(r"^service ", proto.read_text("utf-8"), re.MULTILINE)]
    _protoc(protos, [f"--python_out={into}", f"--mypy_out=quiet:{into}"])
    _protoc(services, [f"--grpc_python_out={into}", f"--mypy_grpc_out=quiet,only_async:{into}"])


def stale(fresh: Path) -> list[Path]:
    """Lists, relative to the stubs' root, the files that are missing, differ or are no longer made."""
    roots = (fresh, STUBS)
    names = {path.relative_to(root) for root in roots for path in (root / PACKAGE).glob("*_pb2*.py*")}
    return sorted(name for name in names if _read(fresh / name) != _read(STUBS / name))


def main() -> int:
    """Returns 1 where --check finds a stale file, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a stub is stale")
    check = parser.parse_args().check

    with TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        names = stale(fresh)
        for name in names:
            done = "stale" if check else _renew(STUBS / name, _read(fresh / name))
            print(done, (STUBS / name).relative_to(ROOT))

    if check and names:
        print("Run `make proto` and commit what it writes.", file=sys.stderr)
        return 1
    return 0


def _protoc(protos: list[Path], outputs: list[str]) -> None:
    if not protos:
        return
    tools = Path(sys.executable).parent
    plugins = [f"--plugin={tools / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", *plugins, *outputs]
    subprocess.run([*command, *map(str, protos)], check=True)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _renew(path: Path, content: bytes | None) -> str:
    if content is None:
        path.unlink()
        return "removed"
    path.write_bytes(content)
    return "wrote"


if __name__ == "__main__":
    sys.exit(main())
