#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Controller, coordinator and all instances side by side; when one of them ends, so does the pod.
read_count() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["motor_deploy_config"][sys.argv[2]])' "$USER_CONFIG_PATH" "$1"
}

start_instances() { # engine role, letter of its instances, how many
    local index
    for ((index = 0; index < $3; index++)); do
        (
            export ROLE="$1" JOB_NAME="$2$index" INDEX="$index"
            "set_$1_env"
            exec python3 -m motor.node_manager.main
        ) &
        programs+=("$!")
    done
}

programs=()
(
    set_controller_env
    ROLE=controller exec python3 -m motor.controller.main --config "$USER_CONFIG_PATH"
) &
programs+=("$!")
(
    set_coordinator_env
    ROLE=coordinator exec python3 -m motor.coordinator.main
) &
programs+=("$!")
prefill=$(read_count p_instances_num)
decode=$(read_count d_instances_num)
start_instances prefill p "$prefill"
start_instances decode d "$decode"

wait -n "${programs[@]}" || true
echo "a program of this pod has ended" >&2
exit 1
