#!/usr/bin/env bash
# servers.sh [FILES], part of `npm run test:versions`: runs the tests of the Redis store, or the
# given files, on several servers: the packages of Debian listed below, and the programs in
# REDIS_SERVERS (paths separated by spaces). `npm run test:full` runs them on the one on the PATH.
# Debian's packages are unpacked under build/servers together with their libraries, so nothing is
# installed and root is not required.
set -euo pipefail
if [ $# -eq 0 ]; then set -- test/servers/redis*.test.ts; fi

# Suite and package: the oldest Valkey and the newest Redis and Valkey of Debian's stable releases.
packages=('bookworm-backports valkey-server' 'trixie redis-server' 'trixie valkey-server')

# Prints the package archive of this machine.
archive () {
  . /etc/os-release
  [ "$ID" = debian ] &&
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v release="$VERSION_CODENAME" '$2 == release { print $1; exit }'
}

# Unpacks a package and its dependencies, and writes a program that runs it with these libraries.
unpack () {
  local suite=$1 package=$2 archive=$3 folder=$PWD/build/servers/$1/$2 suites=$1
  [ -x "$folder/$package" ] && return
  rm -rf "$folder" && mkdir -p "$folder"/{lists/partial,archives/partial,root}
  case $suite in *-backports) suites="$suite ${suite%-backports}" ;; esac
  for name in $suites; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $name main"
  done > "$folder/sources.list"
  : > "$folder/status"
  local options=(
    -qq
    -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=-
    -o Dir::State="$folder" -o Dir::State::status="$folder/status"
    -o Dir::Cache="$folder" -o Dir::Cache::archives="$folder/archives"
    -o APT::Sandbox::User= -o Acquire::Languages=none
  )
  apt-get "${options[@]}" update
  local install=(install -y --download-only --no-install-recommends -t "$suite" "$package")
  apt-get "${options[@]}" "${install[@]}" > "$folder/log"
  for file in "$folder"/archives/*.deb; do dpkg-deb -x "$file" "$folder/root"; done
  rm -r "$folder/archives" "$folder/lists"
  local root=$folder/root triplet
  triplet=$(gcc -print-multiarch 2>/dev/null || echo "$(uname -m)-linux-gnu")
  for kind in cli server; do
    local program=${package%-server}-$kind
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
      "$(find "$root" -name 'ld-linux-*' | head -n 1)" \
      "$root/usr/lib/$triplet:$root/lib/$triplet" "$root/usr/bin/$program" > "$folder/$program"
    chmod +x "$folder/$program"
  done
}

servers=()
for program in ${REDIS_SERVERS:-}; do servers+=("$program"); done
if address=$(archive 2> /dev/null) && [ -n "$address" ]; then
  for entry in "${packages[@]}"; do
    read -r suite package <<< "$entry"
    if unpack "$suite" "$package" "$address"; then
      servers+=("$PWD/build/servers/$suite/$package/$package")
    else
      echo "Not found: $package of Debian $suite"
    fi
  done
fi

failed=0
for server in "${servers[@]}"; do
  version=$("$server" --version)
  echo "On ${version%% sha=*}, $server"
  REDIS_SERVER=$server node scripts/tap.js "$@" || failed=1
done
if [ "${#servers[@]}" -lt 2 ]; then
  echo "The tests must run on two servers at least, and ${#servers[@]} was found." >&2
  exit 1
fi
exit "$failed"
