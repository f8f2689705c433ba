#!/usr/bin/env python3
"""Prints the licences of the crates that are linked into `millrace`: most ask for their text in copies of the program. With --sbom, the list of these
crates instead, for programs that look for known vulnerabilities (CycloneDX). Reads what cargo has fetched for the build; fetches nothing."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
IS_LICENCE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
# A crate under one of several licences, at our choice: the texts of these need not be repeated (Debian has them in /usr/share/common-licenses).
IS_COMMON = re.compile(r"apache|gpl|unlicense", re.IGNORECASE)


def linked():
    """The crates whose code is in the program, by name: without ours, and without those that only builds and compilers run."""
    tree = cargo("tree", "--package=millrace", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}")
    names = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    # Those for other systems need not have been fetched.
    host = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, check=True, text=True).stdout.split("host: ")[1].split()[0]
    packages = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={host}"))["packages"]
    theirs = [package for package in packages if package["source"] and (package["name"], f"v{package['version']}") in names]
    return sorted(theirs, key=lambda package: package["name"])


def cargo(command, *words):
    return subprocess.run(["cargo", command, "--offline", "--locked", *words], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, text=True).stdout


def texts(package):
    """The texts of its licences, also of C code that it brings in a folder."""
    folder = Path(package["manifest_path"]).parent
    files = [file for pattern in ("*", "*/*") for file in sorted(folder.glob(pattern)) if file.is_file() and IS_LICENCE.match(file.name)]
    files = [file for file in files if file.suffix not in (".rs", ".toml", ".json", ".py", ".sh")]
    read = {file: file.read_text(errors="replace").strip() for file in files}
    own = [text for file, text in read.items() if not IS_COMMON.search(file.name) and not text.startswith("GNU GENERAL")]
    return own or list(read.values())


def bill_of_materials(packages):
    lock = (REPOSITORY / "Cargo.lock").read_text()
    sums = {(name, version): checksum for name, version, checksum in re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"', lock)}
    own = re.search(r'^version = "(.*)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)[1]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "millrace", "name": "millrace", "version": own}},
        "components": [component(package, sums.get((package["name"], package["version"]))) for package in packages],
    }


def component(package, checksum):
    url = f"pkg:cargo/{package['name']}@{package['version']}"
    found = {"type": "library", "bom-ref": url, "name": package["name"], "version": package["version"], "purl": url}
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # As crates wrote it before there were expressions.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return found


def main():
    packages = linked()
    if sys.argv[1:] == ["--sbom"]:
        print(json.dumps(bill_of_materials(packages), indent=1))
        return
    print("Millrace contains the following libraries.\n")
    users = defaultdict(list)
    for package in packages:
        print(f"{package['name']} {package['version']}: {package['license'] or 'see below'}; {package['repository'] or 'crates.io'}")
        for text in texts(package):
            users[text].append(package["name"])
    for text, names in users.items():
        print(f"\n{'-' * 100}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


if __name__ == "__main__":
    main()
