"""Checks the dependencies against deny.toml, and their number: a stand-in where cargo-deny can't be installed, and the only
place that counts them. Prints what is wrong; exit status 1 if anything is."""

import json
import re
import subprocess
import sys
import tomllib

PACKAGES_LIMIT = 250


def main():
    with open("deny.toml", "rb") as file:
        rules = tomllib.load(file)
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    packages = used_packages(rules["graph"]["targets"])
    problems = [
        *licences(packages, set(rules["licenses"]["allow"])),
        *bans(packages, rules["bans"]),
        *sources(packages),
    ]
    if len(locked) >= PACKAGES_LIMIT:
        problems.append(f"Cargo.lock has {len(locked)} packages; {PACKAGES_LIMIT} are too many")
    for problem in problems:
        print(problem)
    print(f"{len(packages)} packages used, {len(locked)} in Cargo.lock, {len(problems)} problems")
    return 1 if problems else 0


def used_packages(targets):
    """The packages of the dependency graph on the targets that Millrace is built for. What `cargo metadata` resolves has more:
    optional dependencies that a feature only names."""
    found = {}
    for target in targets:
        command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
        metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        used = built(target)
        found.update({package["id"]: package for package in metadata["packages"] if (package["name"], package["version"]) in used})
    return list(found.values())


def built(target):
    """Names and versions of what is built for a target, tests and build scripts included."""
    command = ["cargo", "tree", "--workspace", "--locked", "--edges", "all", "--target", target, "--prefix", "none", "--format", "{p}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {(words[0], words[1].removeprefix("v")) for words in map(str.split, lines) if len(words) > 1}


def licences(packages, allowed):
    for package in packages:
        expression = package["license"]
        if not expression:
            yield f"{name(package)} names no licence"
        elif not permits(expression, allowed):
            yield f"{name(package)}: its licence, {expression}, is not among those allowed"


def permits(expression, allowed):
    """Whether an SPDX expression can be met with the licences that are allowed."""
    tokens = re.findall(r"\(|\)|[^\s()/]+", expression.replace("/", " OR "))

    def either():
        result = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result = both() or result
        return result

    def both():
        result = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = one() and result
        return result

    def one():
        token = tokens.pop(0)
        if token == "(":
            result = either()
            tokens.pop(0)
            return result
        if tokens and tokens[0] == "WITH":
            token = f"{token} WITH {tokens[1]}"
            del tokens[:2]
        return token in allowed

    return either()


def bans(packages, rules):
    denied = {rule["crate"]: rule["reason"] for rule in rules["deny"]}
    skipped = {rule["crate"] for rule in rules["skip"]}
    versions = {}
    for package in packages:
        if package["name"] in denied:
            yield f"{name(package)} is banned: {denied[package['name']]}"
        if not {package["name"], f"{package['name']}@{package['version']}"} & skipped:
            versions.setdefault(package["name"], set()).add(package["version"])
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and dependency.get("path") is None:
                    yield f"{name(package)} takes any version of {dependency['name']}"
    for crate, several in sorted(versions.items()):
        if len(several) > 1:
            yield f"{crate} is there {len(several)} times: {', '.join(sorted(several))}"


def sources(packages):
    for package in packages:
        if package["source"] and not package["source"].startswith(("registry+", "sparse+")):
            yield f"{name(package)} comes from {package['source']}, which is no registry"


def name(package):
    return f"{package['name']} {package['version']}"


if __name__ == "__main__":
    sys.exit(main())
