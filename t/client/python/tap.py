"""TAP for the Python client programs."""
import sys
import traceback

run = failed = 0


def ok(passed, label):
    global run, failed
    run += 1
    failed += not passed
    print(f"{'ok' if passed else 'not ok'} {run} - {label}", flush=True)
    return passed


def equal(got, want, label):
    if not ok(got == want, label):
        print(f"# got {got!r:.300}, want {want!r:.300}")


def part(function, *args):
    try:
        function(*args)
    except Exception:
        ok(False, f"{function.__name__} {args}")
        for line in traceback.format_exc().splitlines():
            print("# " + line)


def done():
    print(f"1..{run}")
    sys.exit(1 if failed else 0)


def value(i):
    return f"value {i} {'abcdefgh' * (i * 13 % 200)}".encode()
