# What a terminal would obey is shown, not sent, whoever wrote it: keys, values, names of files and data. UTF-8 stays.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
esc=$'\e[31m' title=$'\e]0;x\a'
printf 'data: {"\\e[2Jgröße": 1}\nmodel: lr\n' >key.yaml; "$RECKON" inspect key.yaml; echo $?
printf 'data: {train: a.csv, labels: [y], features: [{name: u, hash: 1}]}\nmodel: "\\u009b31m\\x7f日本"\n' >value.yaml; "$RECKON" inspect value.yaml; echo $?
"$RECKON" inspect "no${esc}file.yaml"; echo $?
"$RECKON" inspect --set "data.train=${title}.csv" run.yaml | grep -v :; echo $?
"$RECKON" inspect "--${esc}"; echo $?
"$RECKON" "${esc}"; echo $?
sed "3s/.*/${esc},job1,city1,1/" train.csv >bad.csv; "$RECKON" train -q --set data.train=bad.csv run.yaml; echo $?
"$RECKON" inspect $'\xff\xc3(.yaml'; echo $?
