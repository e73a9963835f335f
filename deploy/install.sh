#!/bin/sh
# Installs `unslide` from a release: downloads the archive for this machine, and checks its SHA-256. If cosign is installed, it
# also checks that the release's own workflow signed the checksums.
# Usage: install.sh [--client] [--version VERSION] [--to FOLDER]     the newest release, into ~/.local/bin
# --client installs the smaller program for build machines: it has the commands that ask the API, and no services.
# UNSLIDE_RELEASES is the address of the releases, UNSLIDE_SIGNATURE=none skips the signature.
set -eu
releases=${UNSLIDE_RELEASES:-https://github.com/unslide/unslide/releases}
signer='^https://github\.com/unslide/unslide/\.github/workflows/release\.yml@refs/tags/v'
version='' folder=$HOME/.local/bin name=unslide
fail() {
  echo "install.sh: $*" >&2
  exit 1
}
while [ $# -gt 0 ]; do
  case $1 in
    --client) name=unslide-client ;;
    --version) version=${2:?--version: the version, such as 1.2.3}; shift ;;
    --to) folder=${2:?--to: the folder}; shift ;;
    *) fail "$1 is no option; use --client, --version or --to" ;;
  esac
  shift
done
case $(uname -s)-$(uname -m) in
  Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
  Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  *) fail "there is no archive for $(uname -s) on $(uname -m); build it with cargo build --release --package unslide" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$version" ]; then base=$releases/download/v$version; else base=$releases/latest/download; fi
# A redirection never leads from https to http.
case $releases in https://*) protocols='=https' ;; *) protocols='=https,http' ;; esac
fetch() { curl -fsSL --retry 3 --proto "$protocols" -o "$work/$1" "$base/$1" || fail "$base/$1 cannot be downloaded"; }
fetch SHA256SUMS
if [ "${UNSLIDE_SIGNATURE:-}" != none ] && command -v cosign >/dev/null 2>&1; then
  fetch SHA256SUMS.sigstore.json
  cosign verify-blob --bundle "$work/SHA256SUMS.sigstore.json" --certificate-identity-regexp "$signer" \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com "$work/SHA256SUMS" >"$work/cosign" 2>&1 ||
    { cat "$work/cosign" >&2; fail 'the signature of SHA256SUMS is wrong: nothing was installed'; }
fi
# A version begins with a digit, so the name of one program is not the beginning of the other's.
archive=$(awk -v begin="^$name-[0-9]" -v end="-$target.tar.gz" '{ name = $2; sub(/^\*/, "", name) }
  name ~ begin && substr(name, length(name) - length(end) + 1) == end { print name; exit }' "$work/SHA256SUMS")
case $archive in '' | */*) fail "SHA256SUMS of this release has no archive of $name for $target" ;; esac
fetch "$archive"
wanted=$(awk -v name="$archive" '{ found = $2; sub(/^\*/, "", found) } found == name { print $1; exit }' "$work/SHA256SUMS")
if command -v sha256sum >/dev/null 2>&1; then sum=$(sha256sum "$work/$archive"); else sum=$(shasum -a 256 "$work/$archive"); fi
[ "${sum%% *}" = "$wanted" ] || fail "$archive has the SHA-256 ${sum%% *}, and SHA256SUMS says $wanted: nothing was installed"
tar -xzf "$work/$archive" -C "$work"
mkdir -p "$folder"
# The new program takes the place of a running one at once.
cp "$work/${archive%.tar.gz}/unslide" "$folder/.unslide.new"
chmod 755 "$folder/.unslide.new"
mv "$folder/.unslide.new" "$folder/unslide"
"$folder/unslide" version
case :$PATH: in *":$folder:"*) ;; *) echo "Add $folder to PATH." ;; esac
