source "$SOURCE/tests/cli/cases/lib.inc"; make_run
cat >cluster.yaml <<'YAML'
groups:
  - {name: small, count: 2, ranks: 2, memory_gb: 8, memory_bandwidth_gbs: 20, gflops: 100, network_gbps: 10, latency_us: 20, price_per_hour: 0.5}
YAML
sed -e 's/{name: city, hash: 16}/{name: city, hash: 50000000}/' run.yaml >large.yaml
plan() { "$RECKON" plan --cluster cluster.yaml --set data.cache_bytes=0 "$@"; echo "exit $?"; }
plan large.yaml --write plan.yaml && cat plan.yaml
plan large.yaml --sample 100 --ranks 3 --set cluster.wire=bf16 --set train.staleness=1
plan large.yaml --set embedding.dim=64 --write none.yaml; ls none.yaml
plan large.yaml --json | sed -E 's/: *-?[0-9.]+(e[-+]?[0-9]+)?/: N/g'
plan large.yaml --set embedding.dim=64 --json 2>&1 >/dev/null
plan large.yaml --ranks 5
plan large.yaml --set 'cluster.tables=[{name: citty, sharding: row_wise}]'
plan large.yaml --set 'cluster.tables=[{name: city, sharding: row_wise, ranks: [0, 4]}]'
sed -i -e 's/memory_bandwidth_gbs/memory_bandwith_gbs/' cluster.yaml; plan large.yaml
sed -i -e 's/memory_bandwith_gbs: 20, //' cluster.yaml; plan large.yaml
"$RECKON" plan --ranks 2 --measure run.yaml | sed -E -e 's/[0-9.]+ (GB\/s|Gflop\/s)/N \1/g' -e 's/ranks, [0-9.]+ .B/ranks, N/' -e 's/ +[0-9.]+%/ N%/' -e 's/[0-9.]+ ms/N ms/' -e 's/ +[0-9.]+$/ N/' -e 's/[0-9]+ samples/N samples/' -e 's/by [0-9]+ steps/by N steps/'
