"""Builds of revisions, for bench/compare.

A revision is exported into a folder of its own below build-compare/, which git ignores, and built
there: the program and the benchmarks, with the default options.  The folder is named after the
commit, and is kept: the next comparison with this commit starts at once.  Nothing of the working
tree is part of such a build, and the working tree is not touched.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / "build-compare"
COMPLETE = "complete"  # a file in the folder of a build that has succeeded
SHOWN = 15  # lines of a failed command


class CannotBuild(Exception):
    pass


def is_build(path):
    return os.path.isdir(f"{path}/bench") and not os.path.exists(f"{path}/bench/meson.build")


def commit_of(name):
    """The full name of the commit that a revision stands for, or None."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def do(what, command, log):
    """Runs a command; what it prints goes to a log."""
    with open(log, "a", encoding="utf-8") as file:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = log.read_text(errors="replace").splitlines()[-SHOWN:]
        shown = "\n".join(f"    {line}" for line in last)
        raise CannotBuild(f"does not build: {what} failed with status {done.returncode}; the last lines of {log}:\n{shown}")


def targets(build):
    """The program and the benchmarks of a build that Meson has set up."""
    done = subprocess.run(["meson", "introspect", "--targets", build], capture_output=True, text=True, check=False)
    names = [os.path.relpath(name, build) for target in json.loads(done.stdout or "[]")
             if target["type"] == "executable" for name in target["filename"]]
    return [name for name in names if name == "orrery" or name.startswith("bench/")]


def export(commit, source, log):
    """Writes the files of a commit into a folder."""
    source.mkdir()
    archive = source.parent / "source.tar"
    do("git archive", ["git", "-C", ROOT, "archive", "--output", archive, commit], log)
    do("tar", ["tar", "-x", "-f", archive, "-C", source], log)
    archive.unlink()


def make(commit, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source, build, log = folder / "source", folder / "build", folder / "log"
    export(commit, source, log)
    do("meson setup", ["meson", "setup", build, source], log)
    wanted = targets(build)
    if not any(name.startswith("bench/") for name in wanted):
        raise CannotBuild("has no benchmarks")
    do("ninja", ["ninja", "-C", build, *wanted], log)
    (folder / COMPLETE).touch()


@contextlib.contextmanager
def alone():
    """Keeps two comparisons from building in the same folder."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_of(name):
    """The build folder of a revision, made if there is none, or `name` itself if it is one."""
    if is_build(name):
        return pathlib.Path(name).resolve()
    commit = commit_of(name)
    if not commit:
        raise CannotBuild("is neither a build folder nor a revision of this repository")
    folder = CACHE / commit[:12]
    with alone():
        if not (folder / COMPLETE).exists():
            print(f"compare: building {name} ({commit[:12]}) in {os.path.relpath(folder)}", file=sys.stderr, flush=True)
            make(commit, folder)
    return folder / "build"
