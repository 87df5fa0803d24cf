#!/usr/bin/env bash
# sbatch deploy/slurm.sh run.yaml: one rank a node. After a node is lost, the run goes on with those that are left, two at least.
#SBATCH --job-name=reckon
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --no-kill=on
#SBATCH --output=reckon-%j.log
set -euo pipefail

# Slurm runs a copy of this script, so RECKON_DEPLOY says where the others are.
deploy=${RECKON_DEPLOY:-$SLURM_SUBMIT_DIR/deploy}
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)
export RK_THREADS=${RK_THREADS:-$SLURM_CPUS_PER_TASK}
exec "$deploy/launch" -n "$SLURM_NTASKS" --min 2 --shrink --hosts "$hosts" --agent "$deploy/slurm_agent" "$@"
