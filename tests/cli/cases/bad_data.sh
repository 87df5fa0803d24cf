source "$SOURCE/tests/cli/cases/lib.inc"; make_run
cp train.csv good.csv
try() { "$RECKON" train --quiet run.yaml --output "out$RANDOM"; echo $?; }
sed '17s/.*/abc,job1,city2,0/' good.csv >train.csv; try
sed '17s/.*/31,job1/' good.csv >train.csv; try
sed '17s/.*/31,job1,city2,maybe/' good.csv >train.csv; try
sed '1s/label/lable/' good.csv >train.csv; try
gzip -c good.csv | head -c 700 >train.csv; try
: >train.csv; try
