source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" train --quiet run.yaml >/dev/null || exit 9
"$RECKON" train --quiet --set model.deep=[16] --output other run.yaml >/dev/null || exit 9
"$RECKON" report out
"$RECKON" report --quiet --split test --features 1 --output page.html out other
grep -c '<figure>' out/report.html page.html
grep -o '<th>model.deep</th><td>[^/]*</td><td>[^/]*</td>' page.html
grep -o 'test data, [a-z0-9 ]*' page.html
"$RECKON" report . ; echo $?
echo '{"kind":' >>other/metrics.jsonl
"$RECKON" report out other; echo $?
"$RECKON" report --repeats 0 out; echo $?
"$RECKON" report --split none.csv out; echo $?
# Entries that one run's lists lack are one row; a chart alone is no wider than beside others.
"$RECKON" train --quiet --set data.features='[{name: job, hash: 4}]' --output small run.yaml >/dev/null || exit 9
sed -i '$d' other/metrics.jsonl
"$RECKON" report --quiet --features 0 --output lists.html small other && grep -o '<th>data.features.*' lists.html; grep -o 'auto-fi[a-z]*' lists.html
