"""What the tests of databases share: a real server, and looks into it past the library."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


@contextlib.contextmanager
def postgresql():
    """Start a PostgreSQL server of the test's own, on loopback; give its address."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not homes:
        pytest.skip("PostgreSQL is not installed (no /usr/lib/postgresql/*/bin/initdb)")
    pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'psycopg[binary]')")
    bin_folder, options = homes[-1].parent, {}
    folder = Path(tempfile.mkdtemp(prefix="hybridbn-postgresql-"))
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        known = {user.pw_name for user in pwd.getpwall()}
        user = pwd.getpwnam("postgres" if "postgres" in known else "nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(program, *arguments):
        log = folder / "commands.log"
        with open(log, "ab") as out:
            subprocess.run(
                [bin_folder / program, *arguments], check=True, stdout=out, stderr=out, cwd="/", timeout=60, **options
            )

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(folder / "data")
    try:
        run("initdb", "-D", data, "-U", "tester", "-A", "trust", "--encoding", "UTF8", "--locale", "C")
        run(
            "pg_ctl",
            "-D",
            data,
            "-w",
            "-o",
            f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off",
            "start",
            "-l",
            str(folder / "log"),
        )
        yield f"postgresql+psycopg://tester:secret@127.0.0.1:{port}/postgres"
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def opened(alchemy, url):
    engine = alchemy.create_engine(url, poolclass=alchemy.pool.NullPool)
    with engine.begin() as connection:
        yield connection


def tables(alchemy, url):
    with opened(alchemy, url) as connection:
        return sorted(alchemy.inspect(connection).get_table_names())
