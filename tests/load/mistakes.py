"""Wrong use is told before anything is loaded, with what to do about it."""

import subprocess

from harness import MILLRACE, PATIENCE, SCRATCH, place, story
from liar import Liar


def refused(*words):
    done = subprocess.run([MILLRACE, "load", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    return done.returncode, " ".join(done.stderr.split())


@story
def mistakes_have_a_cure():
    here = f"http://127.0.0.1:{Liar().port}/ok"
    for words, said in (
        ((), "required arguments were not provided"),
        (("ftp://127.0.0.1/",), "it must begin with http:// or https://"),
        (("http://no-such-host.invalid/",), "give the server's address: --connect-to"),
        (("http://192.0.2.1/",), "--i-own-this-target"),
        ((here, "http://127.0.0.2/"), "run one test for each"),
        ((here, "--rate", "0"), "a number of arrivals per second above 0"),
        ((here, "--rate", "1e12"), "at most 10000000"),
        ((here, "-u", "0"), "a number of users from 1"),
        ((here, "-n", "0"), "not in 1.."),
        ((here, "--time", "0s"), "longer than zero"),
        ((here, "--time", "5y"), "a time such as 10s, 500ms, 2m or 1h"),
        ((here, "--ramp", "5"), "FROM:TO:TIME, TO:TIME or =N:TIME"),
        ((here, "--ramp", "0:10"), "as in 0:100:1m"),
        ((here, "--ramp", "0:10:0s"), "has no duration"),
        ((here, "--rates", "=0:5s"), "the load is 0 in all stages"),
        ((here, "--rate", "5", "--users", "5"), "cannot be used with"),
        ((here, "--rate", "5", "--think", "1s"), "give --users or --ramp instead of a rate"),
        ((here, "--connections", "5"), "give --rate or --rates"),
        ((here, "--bisect"), "--break"),
        ((here, "--rounds", "some"), "must be auto, or numbers of users"),
        ((here, "--rounds", "auto", "--rate", "5"), "omit the other load, or omit --rounds"),
        ((here, "--rounds", "5", "-u", "5"), "write --rounds auto"),
        ((here, "--rounds", "5", "--tune"), "write --rounds auto"),
        ((here, "--rounds", "auto", "-n", "5"), "give --time for each round"),
        ((here, "--rounds", "auto", "--time", "1s"), "takes 2 s or more"),
        ((here, "--tune"), "--rounds"),
        ((here, "--fail-if", "p95"), "write a figure, < or >, and a value"),
        ((here, "--fail-if", "p42>1s"), "there is no figure `p42`"),
        ((here, "--fail-if", "errors>many"), "write the value as in errors>1%"),
        ((here, "--rounds", "auto", "--fail-if", "errors>1%"), "--slo says what a load must fulfil"),
        ((here, "--rounds", "5", "--slo", "p95<1s"), "write --rounds auto, or use --fail-if"),
        ((here, "--pipeline", "5", "--no-keep-alive"), "cannot be used with"),
        ((here, "--status", "99"), "not in 100..=599"),
        ((here, "-H", "a b: c"), "a header field name"),
        ((here, "--metrics", "bogus"), "unix:/PATH"),
        ((here, "--json", SCRATCH / "none/x.json"), "cannot write results"),
        ((here, "--verify-certificate=/none.pem"), "cannot read /none.pem"),
        ((here, "--scenario", place(".toml", "x = [")), "line 1: it is not valid TOML"),
        ((here, "--scenario", place(".toml", '[[step]]\nget = "/{nonce}"')), "write extract = { nonce ="),
        ((here, "--scenario", place(".toml", 'fields = { X = "{a}" }\n[[step]]\nget = "/"')), "in steps after the value is extracted"),
        ((here, "--urls-from", place(".txt", "/a\n0 /b\n")), "line 2: `0` is not a weight"),
        ((here, "--sitemap", place(".xml", "<x/>")), "give the site's sitemap.xml"),
        ((here, "--sitemap", here + "x.xml"), "give the site's sitemap.xml"),
        ((here, "--replay", place(".log", "hello\n")), "the combined format is"),
        (("--from-har", place(".har", "{}")), "export it again"),
        (("--compare", place(".json", "{}")), "give files written by --json"),
    ):
        status, text = refused(*words)
        assert status in (1, 2) and said in text, f"{words}: status {status}, {text!r} without {said!r}"
