"""Instructions of operations, counted by callgrind.

Instructions hardly depend on how busy the machine is.  Each count is the difference of a long and a
short run, divided by the operations between them, so it leaves out the start of the process.  The
operations are

    NAME_instructions                  operations of the Lua API, in lua/operations.lua
    wake_own_instructions              a wake and the poll that follows, by bench_wake_own
    limits_instructions_NAME           programs of bench_limits in an isolate with limits

The scripts are those of this folder, whatever build runs them.  So two builds run the same Lua.
"""
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "lua" / "operations.lua"
PATIENCE = 600  # seconds for one run


class Failed(Exception):
    """The build has no such operation, or it failed."""


def is_installed():
    return shutil.which("valgrind") is not None


def run(command, **options):
    try:
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE,
                              check=False, stdin=subprocess.DEVNULL, **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} has not ended after {PATIENCE} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None


def collected(*command):
    """The instructions of one run, and what it printed."""
    if not os.access(command[0], os.X_OK):
        raise Failed(f"{command[0]} does not exist")
    done = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command])
    count = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not count:
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("==")]
        raise Failed(lines[0] if lines else f"status {done.returncode} under callgrind")
    return int(count[1]), done.stdout


def between(few, many, command):
    """Instructions of one operation; `command` makes a command of a number of operations."""
    return (collected(*command(many))[0] - collected(*command(few))[0]) / (many - few)


def operation(build, name):
    return between(500, 2500, lambda count: [f"{build}/orrery", SCRIPT, name, count])


def wake(build, _):
    return between(20000, 120000, lambda count: [f"{build}/bench/bench_wake_own", count])


def limits_in(build, program, *ground):
    return between(1, 2, lambda count: [f"{build}/bench/bench_limits", program, ground[0], count, *ground[1:]])


def limits(build, program):
    """In an isolate.  Slices are longer by as much as callgrind is slower, so that a program has as
    many as without it."""
    bench = f"{build}/bench/bench_limits"
    try:
        alone = int(run([bench, program, "plain", "1"]).stdout)
        slowed = int(collected(bench, program, "plain", 1)[1].split()[-1])
    except (ValueError, IndexError):
        raise Failed(f"{bench} does not know {program}") from None
    return limits_in(build, program, "isolate", max(2, 2 * slowed // max(1, alone)))


def plain(build, name):
    """The instructions of the same program in a plain state, for a row of limits()."""
    return limits_in(build, name.removeprefix("limits_instructions_"), "plain")


def rows(builds):
    """{name: function that counts it in a build}.  Only the builds know the programs of the limits."""
    found = {f"{name}_instructions": (operation, name)
             for name in re.findall(r"^function operations\.(\w+)", SCRIPT.read_text(), flags=re.M)}
    found["wake_own_instructions"] = (wake, None)
    for build in builds:
        try:
            for name in run([f"{build}/bench/bench_limits", "list"]).stdout.split():
                found[f"limits_instructions_{name}"] = (limits, name)
        except Failed:
            continue  # that build has no limits to count
    return {row: lambda build, count=count, name=name: count(build, name) for row, (count, name) in found.items()}
