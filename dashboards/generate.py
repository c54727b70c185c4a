#!/usr/bin/env python3
"""Writes run_overview.json, stage_detail.json and control_plane.json.

    pip install -r dashboards/requirements.txt
    python3 dashboards/generate.py            # after a change of this file

The dashboards are made with Grafana's own SDK, so keys and types are those of
its schema; tests/monitoring checks that the files are current, that the schema
knows every key, and that every query returns data from a real run.
"""
import json
import pathlib
import sys

from grafana_foundation_sdk.builders import (bargauge, common, dashboard,
                                             heatmap, prometheus, stat,
                                             statetimeline, table, timeseries)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import (common as shared, dashboard as
                                           model, heatmap as heatmap_model,
                                           prometheus as query_model)

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = model.DataSourceRef(type_val="prometheus", uid="gimbal-prometheus")
WIDTH = 24  # of Grafana's grid
RUN = '{run="$run"}'
STAGE = '{run="$run",stage=~"$stage"}'


# --- Parts -------------------------------------------------------------------

def query(expr, legend="", instant=False, as_table=False):
    made = prometheus.Dataquery().expr(expr).legend_format(legend)
    if instant:
        made = made.instant()
    if as_table:
        made = made.format(query_model.PromQueryFormat.TABLE)
    return made


def fill(panel, title, help_text, unit, width, height, queries):
    panel = (panel.title(title).description(help_text).datasource(SOURCE)
             .span(width).height(height))
    if unit:
        panel = panel.unit(unit)
    for number, each in enumerate(queries):
        panel = panel.with_target(each.ref_id(chr(ord("A") + number)))
    return panel


def lines(title, help_text, unit, *queries, width=8, height=7, stacked=False,
          log=False, least=0):
    panel = fill(timeseries.Panel(), title, help_text, unit, width, height,
                 queries)
    panel = panel.line_width(1).show_points(shared.VisibilityMode.NEVER)
    panel = panel.tooltip(common.VizTooltipOptions().mode(
        shared.TooltipDisplayMode.MULTI))
    if stacked:
        panel = (panel.stacking(common.StackingConfig().mode(
            shared.StackingMode.NORMAL)).fill_opacity(60))
    if log:
        panel = panel.scale_distribution(common.ScaleDistributionConfig().type(
            shared.ScaleDistribution.LOG).log(10))
    elif least is not None:
        panel = panel.min(least)
    return panel


def number(title, help_text, unit, *queries, width=3, height=4, steps=None,
           decimals=None, mappings=None):
    panel = fill(stat.Panel(), title, help_text, unit, width, height, queries)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(
        ["lastNotNull"])).graph_mode(shared.BigValueGraphMode.NONE)
    panel = panel.thresholds(thresholds(steps or [("green", None)]))
    if decimals is not None:
        panel = panel.decimals(decimals)
    if mappings:
        panel = panel.mappings(mappings)
    return panel


def bars(title, help_text, unit, *queries, width=8, height=7, steps=None):
    panel = fill(bargauge.Panel(), title, help_text, unit, width, height,
                 queries)
    return (panel.reduce_options(common.ReduceDataOptions().calcs(
        ["lastNotNull"])).orientation(shared.VizOrientation.HORIZONTAL)
        .display_mode(shared.BarGaugeDisplayMode.BASIC).min(0)
        .thresholds(thresholds(steps or [("blue", None)])))


def thresholds(steps):
    return dashboard.ThresholdsConfig().mode(
        model.ThresholdsMode.ABSOLUTE).steps(
            [model.Threshold(value=value, color=color)
             for color, value in steps])


def map_of_stages(title, help_text, unit, expr, width=12, height=9):
    """A row per stage, time to the right, the value as colour."""
    panel = fill(heatmap.Panel(), title, help_text, unit, width, height,
                 [query(expr, "{{stage}}")])
    color = (heatmap.HeatmapColorOptions()
             .mode(heatmap_model.HeatmapColorMode.SCHEME).scheme("Oranges")
             .fill("dark-orange").steps(64).exponent(0.5))
    return (panel.calculate(False).color(color).show_legend()
            .y_axis(heatmap.YAxisConfig().axis_label("stage").reverse(True)
                    .unit("short").decimals(0)))


def state_line(title, help_text, expr, width=WIDTH, height=4):
    return (fill(statetimeline.Panel(), title, help_text, "", width, height,
                 [query(expr, "{{state}}")])
            .merge_values(True).row_height(0.8)
            .show_value(shared.VisibilityMode.NEVER)
            .mappings([model.ValueMap(options={
                "0": model.ValueMappingResult(text="no", color="transparent"),
                "1": model.ValueMappingResult(text="yes", color="green")})]))


def variable(name, label, metric, many=False):
    made = (dashboard.QueryVariable(name).label(label).datasource(SOURCE)
            .query(f"label_values({metric}, {name})")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.NUMERICAL_ASC))
    if many:
        made = made.multi(True).include_all(True).all_value(".*")
    return made


def annotation(name, color, expr):
    return dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(
        True).icon_color(color).expr(expr)


def make(uid, title, help_text):
    made = (dashboard.Dashboard(title).uid(uid).description(help_text)
            .tags(["gimbal"]).timezone("browser").refresh("10s").editable()
            .time("now-1h", "now").tooltip(model.DashboardCursorSync.CROSSHAIR)
            .with_variable(variable("run", "run", "gimbal_run_state")))
    for other in ("run_overview", "stage_detail", "control_plane"):
        if other != uid:
            made = made.link(
                dashboard.DashboardLink(other.replace("_", " "))
                .type(model.DashboardLinkType.LINK)
                .url(f"/d/{other}").include_vars(True).keep_time(True))
    for each in ANNOTATIONS:
        made = made.annotation(each)
    return made


# From counters: the reason of each is in the run's events.jsonl and on the
# coordinator's status page.
ANNOTATIONS = [
    annotation("stage lost", "red",
               "sum by (stage, reason) "
               f"(increase(gimbal_stage_restarts_total{RUN}[1m])) > 0"),
    annotation("recovered", "orange",
               "sum by (stage) "
               f"(increase(gimbal_stage_recovery_seconds_count{RUN}[1m])) > 0"),
    annotation("refresh plan changed", "purple",
               f"increase(gimbal_refresh_plan_changes_total{RUN}[1m]) > 0"),
    annotation("checkpoint", "blue",
               f"changes(gimbal_checkpoint_update{RUN}[1m]) > 0"),
    annotation("minibatches left out", "yellow",
               "sum by (reason) "
               f"(increase(gimbal_train_skipped_updates_total{RUN}[1m])) > 0"),
]


# --- The dashboards ------------------------------------------------------------

def run_overview():
    return (
        make("run_overview", "gimbal: run overview",
             "How far a run is, how stale its stages are, what was decided.")
        .with_row(dashboard.Row("Progress"))
        .with_panel(number("state", "The state that the run is in.", "",
                           query(f"gimbal_run_state{RUN} == 1", "{{state}}"))
                    .text_mode(shared.BigValueTextMode.NAME))
        .with_panel(number("progress", "Updates done, of all.", "percentunit",
                           query(f"run:gimbal_progress:ratio{RUN}")))
        .with_panel(number("time left", "At the speed of the last minute.", "s",
                           query(f"run:gimbal_eta:seconds{RUN}")))
        .with_panel(number("loss now", "Mean loss of the newest update.", "",
                           query(f"gimbal_train_loss{RUN}"), decimals=4))
        .with_panel(number("held-out loss", "Newest evaluation.", "",
                           query(f"gimbal_valid_loss{RUN}"), decimals=4))
        .with_panel(number("tokens/s now", "Over the last minute.", "short",
                           query(f"run:gimbal_train_tokens:rate1m{RUN}")))
        .with_panel(number(
            "staler than expected",
            "Largest measured staleness beyond the schedule's delay. The run "
            "fails by itself when it is not 0.", "short",
            query(f"max(run_stage:gimbal_staleness_excess:updates{RUN})"),
            steps=[("green", None), ("red", 1)]))
        .with_panel(number(
            "checkpoint age", "Since the newest checkpoint.", "s",
            query("time() - "
                  f"gimbal_checkpoint_last_success_timestamp_seconds{RUN}")))
        .with_panel(lines("loss", "Per update, and on held-out data.", "",
                          query(f"gimbal_train_loss{RUN}", "training"),
                          query(f"gimbal_valid_loss{RUN}", "held out"),
                          width=12, height=8, least=None))
        .with_panel(lines("tokens/s", "Over the last minute.", "short",
                          query(f"run:gimbal_train_tokens:rate1m{RUN}",
                                "tokens/s"), width=6, height=8))
        .with_panel(lines("gradient norm and learning rate",
                          "Norm over all stages, before clipping.", "",
                          query(f"gimbal_train_grad_norm{RUN}", "norm"),
                          query(f"gimbal_train_learning_rate{RUN}",
                                "learning rate"),
                          width=6, height=8, log=True))
        .with_row(dashboard.Row("Staleness"))
        .with_panel(map_of_stages(
            "staleness by stage", "Updates between a minibatch's forward and "
            "its update, measured.", "short",
            f"max by (stage) (gimbal_stage_staleness_updates{RUN})"))
        .with_panel(bars(
            "staleness against expectation",
            "Measured beside what the schedule leads to.", "short",
            query(f"max by (stage) (gimbal_stage_staleness_updates{RUN})",
                  "stage {{stage}}", instant=True),
            query(f"max by (stage) (gimbal_stage_delay_updates{RUN})",
                  "stage {{stage}} expected", instant=True),
            width=6, height=9))
        .with_panel(lines(
            "weight-version skew",
            "Newest minus oldest weight version of any stage.", "short",
            query(f"run:gimbal_weight_version_skew:updates{RUN}", "skew"),
            width=6, height=9))
        .with_row(dashboard.Row("Where time goes"))
        .with_panel(map_of_stages(
            "idle share by stage",
            "Time in which a stage computes nothing: the bubble.",
            "percentunit",
            f'max by (stage) (run_stage_phase:gimbal_phase:ratio1m'
            '{run="$run",phase="idle"})'))
        .with_panel(state_line("run state", "Every state, when it was on.",
                               f"max by (state) (gimbal_run_state{RUN})",
                               width=12, height=9)))


def stage_detail():
    by_phase = ("avg by (phase) (run_stage_phase:gimbal_phase:ratio1m"
                f"{STAGE})")
    return (
        make("stage_detail", "gimbal: stage detail",
             "Time, memory, staleness, bases and links of chosen stages.")
        .with_variable(variable("stage", "stage", "gimbal_stage_weight_version",
                                many=True))
        .with_row(dashboard.Row("Time"))
        .with_panel(lines("time by phase", "Mean over the chosen stages.",
                          "percentunit", query(by_phase, "{{phase}}"),
                          width=12, height=9, stacked=True).max(1))
        .with_panel(lines(
            "busy share", "All phases but idle.", "percentunit",
            query("1 - max by (stage) (run_stage_phase:gimbal_phase:ratio1m"
                  '{run="$run",stage=~"$stage",phase="idle"})',
                  "stage {{stage}}"), width=6, height=9).max(1))
        .with_panel(lines(
            "updates and microbatches per second", "", "ops",
            query(f"sum by (stage) (rate(gimbal_stage_updates_total{STAGE}"
                  "[$__rate_interval]))", "stage {{stage}} updates"),
            query("sum by (stage) (rate(gimbal_stage_microbatches_total"
                  f"{STAGE}[$__rate_interval]))",
                  "stage {{stage}} microbatches"), width=6, height=9))
        .with_row(dashboard.Row("Staleness and weights"))
        .with_panel(lines(
            "staleness", "Measured, and what the schedule leads to.", "short",
            query(f"max by (stage) (gimbal_stage_staleness_updates{STAGE})",
                  "stage {{stage}}"),
            query(f"max by (stage) (gimbal_stage_delay_updates{STAGE})",
                  "stage {{stage}} expected")))
        .with_panel(lines(
            "mean staleness of all updates", "", "short",
            query(f"sum by (stage) (rate(gimbal_stage_staleness_sum{STAGE}"
                  "[$__rate_interval])) / (sum by (stage) (rate("
                  f"gimbal_stage_staleness_count{STAGE}[$__rate_interval])) "
                  "> 0)", "stage {{stage}}")))
        .with_panel(lines(
            "weight versions", "Newest update applied; versions held in the "
            "stash.", "short",
            query(f"max by (stage) (gimbal_stage_weight_version{STAGE})",
                  "stage {{stage}} newest"),
            query(f"sum by (stage) (gimbal_stage_stash_versions{STAGE})",
                  "stage {{stage}} held")))
        .with_row(dashboard.Row("Memory"))
        .with_panel(lines(
            "memory by kind", "Set aside for the chosen stages.", "bytes",
            query(f"sum by (kind) (gimbal_stage_memory_bytes{STAGE})",
                  "{{kind}}"), width=12, stacked=True))
        .with_panel(lines(
            "stash", "All weight versions.", "bytes",
            query(f"sum by (stage) (gimbal_stage_stash_bytes{STAGE})",
                  "stage {{stage}}"), width=6))
        .with_panel(lines(
            "resident memory", "Of every process of the run.", "bytes",
            query(f"gimbal_process_resident_bytes{RUN}", "{{instance}}"),
            width=6))
        .with_row(dashboard.Row("Bases"))
        .with_panel(lines(
            "refreshes per update", "", "short",
            query("sum by (stage) (rate(gimbal_stage_basis_refreshes_total"
                  f"{STAGE}[5m])) / (sum by (stage) (rate("
                  f"gimbal_stage_updates_total{STAGE}[5m])) > 0)",
                  "stage {{stage}}"),
            query(f"1 / (max by (stage) (gimbal_stage_basis_period_updates"
                  f"{STAGE}) > 0)", "stage {{stage}} planned")))
        .with_panel(lines(
            "off-diagonal ratio", "How far the statistics had moved away from "
            "the basis at its last refresh; 0 is aligned.", "",
            query("max by (stage) (gimbal_stage_basis_offdiagonal_ratio"
                  f"{STAGE})", "stage {{stage}}")))
        .with_panel(lines(
            "orthogonality error", "Of the worst basis; the limit is "
            "optimizer.rotation.max_orthogonality_error.", "",
            query("max by (stage) (gimbal_stage_basis_orthogonality_error"
                  f"{STAGE})", "stage {{stage}}"),
            query(f"gimbal_basis_orthogonality_limit{RUN}", "limit"),
            log=True))
        .with_row(dashboard.Row("Links"))
        .with_panel(lines(
            "bytes over edges", "Edge e joins stages e and e + 1.", "Bps",
            query(f"run_edge_direction:gimbal_edge_bytes:rate1m{RUN}",
                  "edge {{edge}} {{direction}}"), width=12))
        .with_panel(lines(
            "copying for links", "Share of time in send and recv; waiting is "
            "part of idle.", "percentunit",
            query("sum by (stage) (run_stage_phase:gimbal_phase:ratio1m"
                  '{run="$run",stage=~"$stage",phase=~"send|recv"})',
                  "stage {{stage}}"), width=12))
        .with_row(dashboard.Row("GPUs (DCGM exporter)"))
        .with_panel(lines("utilisation", "", "percent",
                          query("DCGM_FI_DEV_GPU_UTIL",
                                "{{Hostname}} {{gpu}}")).max(100))
        .with_panel(lines("memory used", "", "decmbytes",
                          query("DCGM_FI_DEV_FB_USED",
                                "{{Hostname}} {{gpu}}")))
        .with_panel(lines("power", "", "watt",
                          query("DCGM_FI_DEV_POWER_USAGE",
                                "{{Hostname}} {{gpu}}"))))


def control_plane():
    def quantile(share, metric, by):
        return (f"histogram_quantile({share}, sum by (le, {by}) "
                f"(rate({metric}_bucket{RUN}[5m])))")
    return (
        make("control_plane", "gimbal: control plane",
             "Workers, leases, recoveries, calls and checkpoints of a run.")
        .with_row(dashboard.Row("Workers"))
        .with_panel(number("coordinator", "Whether it answers.", "",
                           query('up{job="gimbal-coordinator",run="$run"}'),
                           steps=[("red", None), ("green", 1)],
                           mappings=[model.ValueMap(options={
                               "0": model.ValueMappingResult(text="down"),
                               "1": model.ValueMappingResult(text="up")})]))
        .with_panel(number("workers training", "", "short",
                           query('sum(gimbal_workers{run="$run",'
                                 'state="training"})')))
        .with_panel(number("least restarts left",
                           "Of any stage, before the run fails.", "short",
                           query(f"min(gimbal_stage_restarts_left{RUN})"),
                           steps=[("red", None), ("orange", 1),
                                  ("green", 2)]))
        .with_panel(lines("workers by state", "", "short",
                          query(f"sum by (state) (gimbal_workers{RUN})",
                                "{{state}}"), width=7, stacked=True))
        .with_panel(lines(
            "last heard of", "By stage; a worker is given up after the lease.",
            "s",
            query(f"max by (stage) (gimbal_stage_heartbeat_age_seconds{RUN})",
                  "stage {{stage}}"),
            query(f"gimbal_lease_seconds{RUN}", "lease"), width=8))
        .with_panel(state_line("run state", "", "max by (state) "
                               f"(gimbal_run_state{RUN})", height=6))
        .with_row(dashboard.Row("Recoveries"))
        .with_panel(bars(
            "restarts", "In the time shown, by what was lost; a coordinator "
            "that starts again does not count anew.", "short",
            query("round(sum by (stage, reason) (increase("
                  f"gimbal_stage_restarts_total{RUN}[$__range]))) > 0 or "
                  "round(sum by (reason) (increase("
                  f"gimbal_stage_restarts_total{RUN}[$__range])))",
                  "stage {{stage}} {{reason}}", instant=True)))
        .with_panel(lines(
            "seconds to recover", "From a loss until all stages run; median "
            "and worst tenth of the last hour.", "s",
            query("sum(increase(gimbal_stage_recovery_seconds_sum"
                  f"{RUN}[1h])) / (sum(increase("
                  f"gimbal_stage_recovery_seconds_count{RUN}[1h])) > 0)",
                  "mean"),
            query("histogram_quantile(0.9, sum by (le) (increase("
                  f"gimbal_stage_recovery_seconds_bucket{RUN}[1h])))",
                  "worst tenth")))
        .with_panel(lines("decisions", "Written to events.jsonl with their "
                          "reasons.", "short",
                          query("increase(gimbal_decisions_total"
                                f"{RUN}[$__rate_interval])", "decisions"),
                          query("increase(gimbal_refresh_plan_changes_total"
                                f"{RUN}[$__rate_interval])",
                                "refresh plan changes"),
                          query("sum by (reason) (increase("
                                f"gimbal_train_skipped_updates_total{RUN}"
                                "[$__rate_interval]))",
                                "left out: {{reason}}")))
        .with_row(dashboard.Row("Calls"))
        .with_panel(lines("latency", "From arrival to answer, worst "
                          "hundredth.", "s",
                          query(quantile(0.99, "gimbal_rpc_seconds", "method"),
                                "{{method}}"), log=True))
        .with_panel(lines("calls per second", "", "ops",
                          query("sum by (method) (rate("
                                f"gimbal_rpc_seconds_count{RUN}"
                                "[$__rate_interval]))", "{{method}}")))
        .with_panel(lines("errors per second", "", "ops",
                          query("sum by (method, code) (rate("
                                f"gimbal_rpc_errors_total{RUN}"
                                "[$__rate_interval]))",
                                "{{method}} {{code}}")))
        .with_row(dashboard.Row("Checkpoints"))
        .with_panel(lines(
            "age", "Updates since the newest checkpoint.", "short",
            query(f"run:gimbal_checkpoint_age:updates{RUN}", "age"),
            query(f"gimbal_checkpoint_interval_updates{RUN}", "every"),
            width=12))
        .with_panel(lines(
            "duration", "From the cut to the last byte, slowest stage.", "s",
            query("increase(gimbal_checkpoint_duration_seconds_sum"
                  f"{RUN}[5m]) / (increase("
                  f"gimbal_checkpoint_duration_seconds_count{RUN}[5m]) > 0)",
                  "mean"),
            query(quantile(0.9, "gimbal_checkpoint_duration_seconds", "run"),
                  "worst tenth"), width=12))
        .with_panel(lines(
            "size", "Of the newest checkpoint.", "bytes",
            query(f"gimbal_checkpoint_bytes{RUN}", "size"), width=12))
        .with_panel(lines(
            "given up", "Checkpoints, in the time shown.", "short",
            query("round(sum(increase(gimbal_checkpoint_failures_total"
                  f"{RUN}[$__range])))", "given up"), width=12))
        .with_row(dashboard.Row("Start"))
        .with_panel(bars("seconds of the newest start", "By phase; the slowest "
                         "process.", "s",
                         query("max by (phase) (gimbal_startup_seconds"
                               f"{RUN})", "{{phase}}", instant=True),
                         width=12))
        .with_panel(
            fill(table.Panel().show_header(True), "versions", "Of every process.", "", 12, 7,
                 [query(f"gimbal_build_info{RUN}", instant=True,
                        as_table=True)])))


def rendered():
    """Text of every file, by name."""
    texts = {}
    for build in (run_overview, stage_detail, control_plane):
        text = json.dumps(build().build(), cls=JSONEncoder, indent=2,
                          sort_keys=True)
        texts[build.__name__ + ".json"] = text + "\n"
    return texts


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
