#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Controller, coordinator and all instances side by side; when one of them ends, so does the pod.
trap 'trap "" USR1; echo "a program of this pod has ended" >&2; exit 1' USR1
trap 'exit 0' TERM

start() { # role, command
    (
        export ROLE="$1"
        "set_$1_env"
        "${@:2}" || true
        kill -USR1 "$$"
    ) &
}

start_instances() { # engine role, letter of its instances, how many
    local index
    for ((index = 0; index < $3; index++)); do
        JOB_NAME="$2$index" INDEX="$index" start "$1" python3 -m motor.node_manager.main
    done
}

read_count() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["motor_deploy_config"][sys.argv[2]])' "$USER_CONFIG_PATH" "$1"
}

prefill=$(read_count p_instances_num)
decode=$(read_count d_instances_num)
start controller python3 -m motor.controller.main --config "$USER_CONFIG_PATH"
start coordinator python3 -m motor.coordinator.main
start_instances prefill p "$prefill"
start_instances decode d "$decode"
wait
