source "$SOURCE/tests/cli/cases/lib.inc"; make_run
try() { sed "$1" run.yaml >bad.yaml; "$RECKON" train bad.yaml; echo $?; }
try 's/batch_size/batch_sise/'
try 's/epochs: 3/epochs: three/'
try 's/kind: dnn/kind: dmn/'
try 's/hash: 16/hsah: 16/'
try 's/dim: 4/dim: -4/'
try 's/deep: \[8\]/deep: [8/'
try 's/name: label/name: labl/'
try 's/, hash: 16//'
try 's/hash: 16/hash: 16, identity: 5/'
try 's/model: .*/model: {kind: dnn, cross_layers: 3}/'
try 's/train: train.csv/train: trian.csv/'
try '$a cluster: {tables: [{name: citty, sharding: table_wise, ranks: [0]}]}'
