# A server of its own on the filesystem under test, and pgbench against it.
# $1 scale, $2 clients, $3 threads, $4 seconds, then options of pgbench.
set -eu
scale=$1 clients=$2 threads=$3 seconds=$4
shift 4
bin=
for directory in /usr/lib/postgresql/*/bin; do
    [ ! -x "$directory/postgres" ] || [ ! -x "$directory/pgbench" ] || bin=$directory
done
[ -n "$bin" ] || { echo 'there is no PostgreSQL server in /usr/lib/postgresql' >&2; exit 1; }
place=$(pwd)/data
case $place in
    *,*) echo "PostgreSQL accepts no comma in the path of its directory: $place" >&2; exit 1 ;;
esac
if [ ${#place} -gt 85 ]; then
    echo "the path is too long for the server's socket (${#place} bytes; the limit is 85): $place" >&2
    exit 1
fi
mkdir data
# The server ends with this script, however that ends.
as='setpriv --pdeathsig=KILL'
if [ "$(id -u)" = 0 ]; then
    # The server refuses to run as root.
    chown nobody data
    chmod 711 .
    as='setpriv --reuid=nobody --regid=nogroup --clear-groups --pdeathsig=KILL'
fi
$as "$bin/initdb" -D data -U fsdyno -A trust --no-locale -E UTF8 >&2
# Nothing outside the directory is written: no shared memory in /dev/shm, no socket in /run.
$as "$bin/postgres" -D "$place" -k "$place" -h '' -c dynamic_shared_memory_type=mmap \
    -c max_connections=$((clients + 10)) >&2 &
server=$!
trap 'kill -QUIT "$server" 2>/dev/null || true' EXIT
tries=0
until "$bin/pg_isready" -q -h "$place" -U fsdyno; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] && kill -0 "$server" || { echo 'the server does not answer' >&2; exit 1; }
    sleep 0.1
done
printf 'Initialising...'
said=$("$bin/pgbench" -i -q -s "$scale" -h "$place" -U fsdyno postgres 2>&1)
printf '\n%s\nTransactions...' "$said"
said=$("$bin/pgbench" -c "$clients" -j "$threads" -T "$seconds" -n "$@" -h "$place" -U fsdyno postgres)
printf '\n%s\n' "$said"
kill -INT "$server"
wait "$server"
