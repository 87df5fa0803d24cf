# What must not pass in silence: files that are not there, rows that are left out, output that does not arrive.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
try() { rm -rf out; "$RECKON" train --quiet "$@" run.yaml >/dev/null; echo $?; }
cp train.csv good.csv
try --set data.test=none.csv
try --set data.valid='{path: none*.csv, fraction: 0}'
head -1 good.csv >head.csv; try --set data.test=head.csv
sed '1s/job/city/' good.csv >twice.csv; try --set data.train=twice.csv
"$RECKON" convert --quiet twice.csv twice.rkb; echo $?
sed '17s/.*/31,job1/' good.csv >bad.csv
try --set data.on_bad_row=skip --set data.train=bad.csv
"$RECKON" predict out bad.csv; echo $?
"$RECKON" predict --limit 2 out valid >valid.csv; echo $?
try --set data.features='[{name: city, hash: 16}, {name: copy, column: label, identity: 2}]'
try --set model='{kind: fm}' --set data.features='[{name: city, hash: 16}]'
try --set data.features='[{name: age, dense: true}, {name: city, hash: 16}]' --set train.epochs=1 2>&1 | sed 's/loss is [0-9.]*/loss is N/'
sed 's/,[01]$/,1/' good.csv >ones.csv; try --set data.train=ones.csv --set data.test=ones.csv --set train.epochs=3
printf '1 1:0.5 2:1\n0 2:2\n' >w.libsvm
try --set data='{train: w.libsvm, labels: [{name: label}], features: [{name: ids, identity: 5}]}'
try --set data='{train: w.libsvm, labels: [{name: label}], features: [{name: ids, identity: 5, weights: ids}]}'
"$RECKON" convert -q w.libsvm w.rkb && "$RECKON" convert -q w.rkb w2.libsvm && cat w2.libsvm && "$RECKON" convert -q w.rkb w.csv; echo $?
if [ -w /dev/full ]; then "$RECKON" inspect run.yaml >/dev/full; echo $?; fi
