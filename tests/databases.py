"""What the tests of databases share: a real server, and looks into it past the library."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
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
def mariadb():
    """Start a MariaDB server of the test's own, on loopback; give its address."""
    programs = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if None in programs:
        pytest.skip("MariaDB is not installed (no mariadbd)")
    pytest.importorskip("pymysql", reason="PyMySQL is not installed (pip install pymysql)")
    folder = Path(tempfile.mkdtemp(prefix="hybridbn-mariadb-"))
    user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    shutil.chown(folder, user)
    common = ["--no-defaults", f"--user={user}", f"--datadir={folder}/data"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = [programs[1], *common, "--auth-root-authentication-method=normal"]
    subprocess.run(made, check=True, timeout=120, **silent)
    place = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
    server = subprocess.Popen([programs[0], *common, *place], **silent)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        # a driver that sends many statements at once where it is asked to
        yield f"mysql+pymysql://root@127.0.0.1:{port}/test?client_flag={1 << 16}"
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def opened(alchemy, url):
    engine = alchemy.create_engine(url, poolclass=alchemy.pool.NullPool)
    with engine.begin() as connection:
        yield connection


def tables(alchemy, url):
    with opened(alchemy, url) as connection:
        return sorted(alchemy.inspect(connection).get_table_names())
