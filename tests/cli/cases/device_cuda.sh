# Without a GPU `device: cuda` says so and trains nothing, whether the build has CUDA or not; what a GPU does not do is refused before.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
export CUDA_VISIBLE_DEVICES=
same() { sed -e 's/this build has no CUDA/there is no GPU here/' -e 's/no GPU can be used: .*/there is no GPU here/' -e 's/^hint: .*\(RK_CUDA\|nvidia-smi\).*/hint: .../' "$@" >&2; }
try() { sed "$1" run.yaml >bad.yaml; echo "$2" >>bad.yaml; "$RECKON" train --quiet bad.yaml 2>said; echo $?; same said; }
try '' 'device: cuda'
try '' 'device: cud'
try '' 'device: {kind: cuda, memory: 40GB}'
try '' 'cuda: {memory: lots}'
try '' 'cuda: {memory: 40GB, tf23: true}'
try 's/epochs: 3/staleness: 1/' 'device: cuda'
try '' 'cluster: {virtual_shards: 4}
device: cuda'
"$RECKON" train --quiet --set device=cuda run.yaml 2>said; echo $?; same said
ls out 2>/dev/null
# What is not asked for is not looked at.
echo 'cuda: {memory: 1.5GB, number: 3}' >>run.yaml
"$RECKON" train --quiet run.yaml >/dev/null; echo $?
"$RECKON" inspect --config-only --set cuda.tf32=true run.yaml | tail -n 5
