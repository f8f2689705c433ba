"""What scenarios of HTTPS share: certificates, and clients that speak TLS."""

import os
import socket
import ssl
import subprocess

from story import raw, request


def openssl(*words, **options):
    """Runs openssl; what it says."""
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, text=True, **options).stdout


def key_words(kind):
    """Words for a new key: "ec" or "rsa"."""
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["-newkey", "rsa:2048"]


def certificate(stage, name, names, kind="ec"):
    """Writes FOLDER/NAME.crt and .key; the serial number of the certificate."""
    names = ",".join(f"DNS:{one}" for one in names)
    out = [stage.folder / f"{name}.new.key", stage.folder / f"{name}.new.crt"]
    openssl("req", "-x509", *key_words(kind), "-nodes", "-days", "9", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", "-keyout", out[0], "-out", out[1])
    for path in out:
        os.replace(path, str(path).replace(".new", ""))
    return int(openssl("x509", "-noout", "-serial", "-in", stage.folder / f"{name}.crt").split("=")[1], 16)


def authority(stage, name):
    """Writes FOLDER/NAME.crt and .key: an authority."""
    openssl("req", "-x509", *key_words("ec"), "-nodes", "-days", "9", "-subj", f"/O=Example/CN={name}", "-keyout", stage.folder / f"{name}.key", "-out", stage.folder / f"{name}.crt")


def signed(stage, name, by, subject, *more):
    """Writes FOLDER/NAME.crt and .key, signed by the authority `by`."""
    at = stage.folder
    openssl("req", "-x509", *key_words("ec"), "-nodes", "-days", "9", "-subj", subject, "-CA", at / f"{by}.crt", "-CAkey", at / f"{by}.key", "-addext", "basicConstraints=CA:FALSE", *more, "-keyout", at / f"{name}.key", "-out", at / f"{name}.crt")


def context(**options):
    """Of a client that trusts everybody."""
    chosen = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    chosen.check_hostname, chosen.verify_mode = False, ssl.CERT_NONE
    for name, value in options.items():
        setattr(chosen, name, value)
    return chosen


class Client(raw.Wire):
    """A connection with TLS."""

    def __init__(self, server, name="a.test", chosen=None, session=None, timeout=30.0):
        plain = socket.create_connection(server.address, timeout)
        self.socket = (chosen or context()).wrap_socket(plain, server_hostname=name, session=session)
        self.buffer, self.ended, self.timeout = b"", False, timeout

    def get(self, target="/a.txt", **parts):
        self.send(request(target, **parts))
        return self.answer()

    def serial(self):
        text = ssl.DER_cert_to_PEM_cert(self.socket.getpeercert(True))
        return int(openssl("x509", "-noout", "-serial", input=text).split("=")[1], 16)
