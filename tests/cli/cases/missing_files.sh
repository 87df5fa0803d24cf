"$RECKON" train none.yaml; echo $?
"$RECKON" eval none; echo $?
"$RECKON" predict none file.csv; echo $?
"$RECKON" convert none.csv out.rkb; echo $?
"$RECKON" report none; echo $?
mkdir -p empty; "$RECKON" eval empty; echo $?
