"""OCI layouts written by hand, so that a test can say what no tool would."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def entry(name, data=b"", kind=tarfile.REGTYPE, **more):
    """A member of a layer: a TarInfo and its bytes."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mtime = kind, len(data), 1_000_000_000
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(entries):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


PACKED = {"tar": lambda data: data, "tar+gzip": gzip.compress, "tar+zstd": zstd}


class Layout:
    """A layout directory with one image for linux/amd64 (or `architecture`)."""

    def __init__(self, path, layers, packing="tar+gzip", architecture="amd64", config=None):
        self.path = path
        (path / "blobs/sha256").mkdir(parents=True)
        streams = [tar(layer) for layer in layers]
        settings = self.blob(CONFIG, json.dumps({
            "os": "linux", "architecture": architecture, "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [
                "sha256:" + hashlib.sha256(stream).hexdigest() for stream in streams]},
        }).encode())
        self.layers = [self.blob(f"application/vnd.oci.image.layer.v1.{packing}",
                                 PACKED[packing](stream)) for stream in streams]
        self.manifest = self.blob(MANIFEST, json.dumps(
            {"schemaVersion": 2, "config": settings, "layers": self.layers}).encode())
        self.write("oci-layout", {"imageLayoutVersion": "1.0.0"})
        self.write("index.json", {"schemaVersion": 2, "manifests": [self.manifest]})

    def blob(self, kind, data):
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def write(self, name, value):
        (self.path / name).write_text(json.dumps(value), encoding="utf-8")

    def archive(self, path):
        """The same as a .tar."""
        with tarfile.open(path, "w") as made:
            made.add(self.path, arcname=".")
        return path
