"""What is written below /etc, and taken back: whole, killed, edited, refused, confirmed or not."""

import os
import pty
import random
import signal
import subprocess
import time

import rig
from machine import Machine, refused

SYSCTL, UNIT, OPTIONS = "etc/sysctl.d/60-millrace.conf", "etc/systemd/system/millrace.service.d/60-millrace.conf", "etc/mysql/mariadb.conf.d/60-millrace.cnf"
JOURNAL = "var/lib/millrace/tune/journal.json"


def apply_and_undo(folder):
    """The diff that is shown is what is written; afterwards `diff -r` of /etc is empty."""
    machine = Machine(folder)
    diff = machine.good("--diff")
    if machine.differs():
        return f"--diff changed {machine.differs()}"
    patched = folder / "patched"
    subprocess.run(["cp", "-a", machine.before, patched / "etc"] if patched.mkdir() is None else [], check=True)
    subprocess.run(["patch", "-p1", "-s", "-d", patched], input=diff, text=True, check=True)
    said = machine.good("--apply")
    if [name for name in (SYSCTL, UNIT, OPTIONS) if f"wrote      /{name}\n" not in said or not (machine.root / name).exists()]:
        return f"not all is written: {said}"
    both = subprocess.run(["diff", "-r", "--no-dereference", patched / "etc", machine.root / "etc"], capture_output=True, text=True).stdout
    if both:
        return f"the diff is not what was written: {both}"
    if machine.good("--diff").strip():
        return "there is a diff after applying"
    machine.good("--apply", "--for", "shop")
    if "innodb_flush_log_at_trx_commit=1" not in (machine.root / OPTIONS).read_text():
        return "the second purpose is not applied"
    machine.good("--undo")
    return machine.differs() or ("" if "nothing to take back" in machine.good("--undo") else "a second undo does something")


def killed(folder):
    """SIGKILL at 20 moments of applying and of taking back; after the next undo, /etc is as it was."""
    return kills(Machine(folder), [SYSCTL, UNIT, OPTIONS], ["etc/systemd/system/millrace.service.d"])


def kills(machine, files, folders=()):
    """Kills applying and taking back at 20 moments, half of them those at which one of these files or folders is there."""
    started = time.monotonic()
    machine.good("--apply")
    span = time.monotonic() - started
    machine.good("--undo")
    torn = 0
    marks = [JOURNAL, *folders, *files]
    for number in range(20):
        mark = marks[number // 2 % len(marks)] if number % 2 else None
        torn += kill(machine, machine.command("--apply"), span, mark, files)
        if number % 4 == 3:
            # Taking back is killed, too.
            kill(machine, machine.command("--undo"), span, None, files)
        machine.tune("--undo")
        if machine.differs() or (machine.root / JOURNAL).exists():
            return f"kill {number} (at {mark or 'a random moment'}): {machine.differs() or 'the journal is still there'}"
        if left := [path.name for path in (machine.root / "var/lib/millrace/tune").glob("*")]:
            return f"kill {number}: {left} are left"
    print(f"# killed: {torn} of 20 kills came between the first and the last file")
    return ""


def kill(machine, command, span, mark, files):
    """Runs a command and kills it: as soon as there is this file, else at a random moment. Whether some of the files were there, and others not."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + (span * 5 if mark else random.random() * span)
    while time.monotonic() < end and child.poll() is None and not (mark and (machine.root / mark).exists()):
        pass
    child.kill()
    child.wait()
    there = [(machine.root / name).exists() for name in (JOURNAL, *files)]
    return any(there) and not all(there)


def edited(folder):
    """A file of ours that was edited by hand is neither overwritten nor deleted, and named."""
    machine = Machine(folder)
    machine.good("--apply")
    ours = machine.root / OPTIONS
    ours.write_text(ours.read_text() + "max_allowed_packet=64M\n")
    for arguments in (["--apply", "--for", "shop"], ["--undo"]):
        why = refused(machine.tune(*arguments), f"/{OPTIONS} was edited")
        if why or "max_allowed_packet" not in ours.read_text():
            return f"{arguments}: {why or 'the line is gone'}"
    ours.unlink()
    machine.good("--undo")
    return machine.differs()


def other_tools(folder):
    """Files of other tools that would win: refused, named, and left out if wished."""
    machine = Machine(folder)
    other = machine.write("etc/sysctl.d/99-tuned.conf", "vm.swappiness = 60\n")
    why = refused(machine.tune("--apply"), "/etc/sysctl.d/99-tuned.conf sets vm.swappiness = 60", "--without vm.swappiness")
    if why or (machine.root / SYSCTL).exists():
        return why or "it was applied"
    machine.good("--apply", "--without", "vm.swappiness")
    if "swappiness" in (machine.root / SYSCTL).read_text():
        return "vm.swappiness was written"
    machine.good("--undo")
    other.unlink()
    foreign = machine.write(SYSCTL, "vm.swappiness = 1\n")
    why = refused(machine.tune("--apply"), f"/{SYSCTL} is there, and the journal does not know it")
    foreign.unlink()
    return why or machine.differs()


def no_room(folder):
    """A read-only /etc, a full /etc and a full /var: refused, and nothing is changed."""
    machine = Machine(folder)
    etc, var = machine.root / "etc", machine.root / "var/lib/millrace"
    var.mkdir()
    cases = {
        "Read-only file system": f"mount --bind {etc} {etc} && mount -o remount,ro,bind {etc}",
        # Room for the folder and the first files only.
        "No space left": f"mount -t tmpfs -o size=16k,nr_inodes=100 none {etc}/mysql/mariadb.conf.d && cp {machine.before}/mysql/mariadb.conf.d/50-client.cnf {etc}/mysql/mariadb.conf.d/ && ! cat /dev/zero >{etc}/mysql/mariadb.conf.d/fill 2>/dev/null",
        "No space left on device": f"mount -t tmpfs -o size=4k none {var} && ! cat /dev/zero >{var}/fill 2>/dev/null",
    }
    for words, script in cases.items():
        inside = f"{script}; \"$@\"; code=$?; diff -r --no-dereference {machine.before} {etc} | grep 60-millrace; exit $code"
        done = machine.tune("--apply", prefix=["unshare", "--mount", "sh", "-c", inside, "sh"])
        why = refused(done, words.removesuffix(" on device")) or done.stdout.strip() or machine.differs()
        if why or (machine.root / JOURNAL).exists():
            return f"{words}: {why or 'the journal is there'}"
    return ""


def confirmed_or_not(folder):
    """A trial is taken back after its time, also if its terminal dies; a confirmed one stays."""
    machine = Machine(folder)
    why = refused(machine.tune("--confirm-now"), "no settings wait for a confirmation")
    machine.good("--apply", "--confirm", "1s")
    if why or not machine.differs():
        return why or "nothing is applied"
    if not rig.wait_for(lambda: not (machine.root / JOURNAL).exists() and not guardians(machine), 10) or machine.differs():
        return f"not taken back: {machine.differs()}, guardians: {guardians(machine)}"
    machine.good("--apply", "--confirm", "10m")
    why = refused(machine.tune("--apply"), "not confirmed yet", "--confirm-now")
    guardian = guardians(machine)
    if why or len(guardian) != 1:
        return why or f"guardians: {guardian}"
    machine.good("--confirm-now")
    os.kill(int(guardian[0]), signal.SIGKILL)  # it would find nothing to do in ten minutes
    if not machine.differs():
        return "the confirmed settings are gone"
    machine.good("--undo")
    return machine.differs() or terminal_dies(machine)


def guardians(machine):
    """The processes that wait for the end of a trial."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and f"--root\0{machine.root}".encode() in read(pid)]


def read(pid):
    """The command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def terminal_dies(machine):
    """The shell that applied is hung up together with its terminal."""
    command = " ".join(machine.command("--apply", "--confirm", "2s"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", f"{command} >/dev/null; echo done; sleep 60"])
    said = b""
    while b"done" not in said:
        said += os.read(terminal, 1000)
    os.close(terminal)
    os.waitpid(pid, 0)
    if not machine.differs():
        return "nothing is applied in the terminal"
    if not rig.wait_for(lambda: not (machine.root / JOURNAL).exists(), 10):
        return "the terminal died, and nothing is taken back"
    return machine.differs()


def container(folder):
    """In a container only the database's file is written; kernel and limits are for the host."""
    machine = Machine(folder)
    machine.write(".dockerenv", "")
    said = machine.good()
    if "docker run --sysctl net.core.somaxconn=" not in said or "--ulimit nofile=" not in said:
        return f"it does not say what the host has to do: {said}"
    machine.good("--apply")
    if (machine.root / SYSCTL).exists() or (machine.root / UNIT).exists() or not (machine.root / OPTIONS).exists():
        return machine.differs()
    machine.good("--undo")
    return machine.differs()


STORIES = {
    "apply-and-undo": apply_and_undo, "killed": killed, "edited": edited, "other-tools": other_tools, "no-room": no_room,
    "confirmed-or-not": confirmed_or_not, "container": container,
}
