#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The node manager of one pod of an engine instance.
case "$ROLE" in
    prefill) set_prefill_env && letter=p ;;
    decode) set_decode_env && letter=d ;;
    encode) set_encode_env && letter=e ;;
    union) set_union_env && letter=u ;;
esac

# The pods of an InferServiceSet share one template, so what tells instances apart comes from the operator.
if [ -n "${INFER_SERVICE_INDEX:-}" ]; then
    export JOB_NAME="$JOB_NAME-$INFER_SERVICE_INDEX-$letter$INSTANCE_INDEX"
fi

for part in ascend-toolkit nnal/atb; do
    settings="${CANN_INSTALL_PATH:-}/$part/set_env.sh"
    if [ -r "$settings" ]; then
        set +u
        # shellcheck source=/dev/null
        source "$settings"
        set -u
    fi
done

export HCCL_PATH="$CONFIG_PATH/hccl.json" RANKTABLE_PATH="$CONFIG_PATH/hccl.json"
python3 "$CONFIGMAP_PATH/hccl_tools.py" >"$HCCL_PATH"
if [ -n "${KVS_MASTER_SERVICE:-}" ]; then
    export MOONCAKE_CONFIG_PATH="$CONFIG_PATH/mooncake.json"
    python3 "$CONFIGMAP_PATH/mooncake_config.py" >"$MOONCAKE_CONFIG_PATH"
fi
exec python3 -m motor.node_manager.main
