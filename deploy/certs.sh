#!/bin/sh
# An authority of one's own and certificates for hosts, for gimbal's TLS:
#
#   deploy/certs.sh DIR ca                  DIR/ca.pem and DIR/ca.key, once
#   deploy/certs.sh DIR host NAME [ALSO..]  DIR/NAME.pem and DIR/NAME.key, good for
#                                           NAME, ALSO (names or addresses) and
#                                           localhost
#   deploy/certs.sh DIR renew NAME          the same certificate, good from now on
#   deploy/certs.sh DIR show                what there is, and until when
#
# A host needs ca.pem and its own two files. ca.key signs whatever it is asked to:
# it stays where it is. Certificates last DAYS days (default 90), the authority
# ten years. Running programs take up a renewed certificate by themselves.
set -eu

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | grep -v '^set' >&2
  exit 2
}

[ $# -ge 2 ] || usage
dir=$1
verb=$2
shift 2
days=${DAYS:-90}
umask 077

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

make_ca() {
  if [ -e "$dir/ca.key" ]; then
    echo "certs.sh: $dir/ca.key is there already; another authority goes into" \
      "another folder" >&2
    exit 2
  fi
  mkdir -p "$dir"
  new_key "$dir/ca.key"
  openssl req -x509 -new -key "$dir/ca.key" -sha256 -days 3650 \
    -subj "/CN=gimbal $(date +%Y-%m-%d)" \
    -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$dir/ca.pem"
  chmod 644 "$dir/ca.pem"
}

need() {
  for file in "$@"; do
    [ -r "$dir/$file" ] && continue
    echo "certs.sh: no $dir/$file; 'ca' makes the authority, 'host' a" \
      "certificate" >&2
    exit 2
  done
}

# "DNS:a,IP:1.2.3.4" of names and addresses.
alternatives() {
  list=
  for name in "$@" localhost 127.0.0.1; do
    kind=DNS
    case $name in *:*) kind=IP ;; *[!0-9.]*) ;; *) kind=IP ;; esac
    list=$list${list:+,}$kind:$name
  done
  echo "$list"
}

# The certificate of NAME for its key and the alternatives in NAME.san. It comes
# into place whole.
sign() {
  name=$1
  cat > "$dir/$name.ext" <<EOF
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectAltName=$(cat "$dir/$name.san")
EOF
  openssl req -new -key "$dir/$name.key" -subj "/CN=$name" |
    openssl x509 -req -sha256 -days "$days" -CA "$dir/ca.pem" \
      -CAkey "$dir/ca.key" -set_serial "0x$(openssl rand -hex 16)" \
      -extfile "$dir/$name.ext" -out "$dir/$name.new" 2> "$dir/$name.log" ||
    { cat "$dir/$name.log" >&2; exit 1; }
  rm "$dir/$name.ext" "$dir/$name.log"
  chmod 644 "$dir/$name.new"
  mv "$dir/$name.new" "$dir/$name.pem"
}

case $verb in
  ca) make_ca ;;
  host)
    [ $# -ge 1 ] && [ "$1" != ca ] || usage
    need ca.pem ca.key
    alternatives "$@" > "$dir/$1.san"
    [ -e "$dir/$1.key" ] || new_key "$dir/$1.key"
    sign "$1"
    ;;
  renew)
    [ $# -eq 1 ] || usage
    need ca.pem ca.key "$1.key" "$1.san"
    sign "$1"
    ;;
  show)
    need ca.pem
    for pem in "$dir"/*.pem; do
      echo "$pem: $(openssl x509 -in "$pem" -noout -enddate |
        sed 's/notAfter=/until /')"
    done
    ;;
  *) usage ;;
esac
