# What can be read once is read to its end where once is enough, and refused where it is not; paths that only other programs know are named.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
bounded() { timeout 20 "$RECKON" "$@"; echo "exit $?"; }
bounded inspect run.yaml >a; bounded inspect <(cat run.yaml) >b; cmp a b && echo same
bounded train -q <(cat run.yaml) >/dev/null
mkfifo pipe.csv
for key in train test; do bounded train --overwrite --set data.$key=pipe.csv run.yaml; done
"$RECKON" predict out train.csv >a
cat train.csv | timeout 20 "$RECKON" predict out - >b; cmp a b && echo same
timeout 20 "$RECKON" predict out <(cat train.csv) | cmp a - && echo same
cat train.csv >pipe.csv & timeout 20 "$RECKON" predict out pipe.csv | cmp a - && echo same
bounded convert pipe.csv o.rkb
cat train.csv >pipe.csv & bounded convert -q pipe.csv o.tsv
tail -1 o.tsv
for path in s3://bucket/a.csv hdfs://host/a.csv https://host/a.csv "~/a.csv"; do bounded train --overwrite --set "data.train='$path'" run.yaml; done
bounded predict out gs://bucket/a.csv; bounded train gs://bucket/run.yaml; bounded predict s3://bucket/out train.csv
bounded train --set train.output=s3://bucket/out run.yaml; bounded convert train.csv s3://bucket/o.rkb
ls
