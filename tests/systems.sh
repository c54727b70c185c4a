# Whether the tests that need a system beside gimbal can run on this machine;
# sourced by tests/run.sh. A system's name is the label of its tests.

readonly SYSTEMS=(slurm kube image machines monitoring)
readonly KUBE_TOOLS=build/kube-tools  # as tests/kube/run.sh has it

# can_test SYSTEM: succeeds, or says in one line what is missing. Takes seconds;
# minutes where servers do not answer.
can_test() { "_can_test_$1"; }

# _or_say REASON COMMAND...
_or_say() {
  local reason=$1
  shift
  "$@" >/dev/null 2>&1 && return
  echo "$reason"
  return 1
}

_has() {
  local program
  for program in "$@"; do
    PATH=$PATH:/usr/sbin:/sbin \
      _or_say "$program is not installed" command -v "$program" || return
  done
}

# What the sandboxes and stand-ins of the tests do.
_may_isolate() {
  _has unshare nsenter setpriv python3 &&
    _or_say "needs root" test "$EUID" -eq 0 &&
    _or_say "no namespaces can be made here" \
      unshare --mount --net --pid --fork --mount-proc true &&
    _or_say "nothing can be mounted here" \
      unshare --mount mount -t tmpfs none /mnt
}

_can_test_slurm() { _has munged slurmctld slurmd sbatch srun scontrol; }

_can_test_monitoring() { _has prometheus promtool python3; }

_can_test_kube() {
  _has ip iptables && _may_isolate &&
    _or_say "iptables does not work here" unshare --net iptables -S &&
    _or_say "helm, kubectl and schemas could not be fetched" \
      timeout 300 tests/kube/fetch_tools.sh "$KUBE_TOOLS"
}

_for_debian_12() {
  _or_say "the programs of this build are not for Debian 12" \
    grep -qx VERSION_CODENAME=bookworm /etc/os-release
}

# Machines begin as this one, below a systemd of their own.
_can_test_machines() {
  # shellcheck disable=SC2016  # for the shell in the namespace
  _has /lib/systemd/systemd ip openssl rsync sqlite3 prometheus && _may_isolate &&
    _for_debian_12 &&
    _or_say "no overlays or control groups can be mounted here" \
      unshare --mount sh -ec 'mount -t tmpfs none /mnt; cd /mnt; mkdir a b c d
        mount -t overlay overlay -o lowerdir=/,upperdir=a,workdir=b c
        mount -t cgroup2 cgroup2 d; mkdir d/$$; rmdir d/$$'
}

# The image is around the programs of this build, on a base made of packages.
_can_test_image() {
  _has buildah mmdebstrap && _may_isolate &&
    _for_debian_12 &&
    _or_say "no mirror of Debian's packages answers" \
      timeout 100 mmdebstrap --quiet --simulate --variant=custom --format=null \
      --aptopt='Acquire::Retries 1' --aptopt='Acquire::http::Timeout 20' \
      bookworm /dev/null
}
