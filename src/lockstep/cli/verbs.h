// The functions of the commands, which the tables in builtin.cpp and engine.cpp name.
#pragma once

#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// All commands, in the order of the help screen.
const std::vector<Verb>& builtin_verbs();

/// Of commands without options.
std::vector<FieldInfo> no_fields();

std::vector<FieldInfo> train_fields();
int run_train(const Call& call, Console& console);

std::vector<FieldInfo> plan_fields();
int run_plan(const Call& call, Console& console);

std::vector<FieldInfo> cache_fields();
int run_cache(const Call& call, Console& console);

std::vector<FieldInfo> evaluate_fields();
int run_evaluate(const Call& call, Console& console);

std::vector<FieldInfo> predict_fields();
int run_predict(const Call& call, Console& console);

std::vector<FieldInfo> report_fields();
int run_report(const Call& call, Console& console);

std::vector<FieldInfo> network_show_fields();
int run_network_show(const Call& call, Console& console);
int run_network_list(const Call& call, Console& console);

std::vector<FieldInfo> export_fields();
int run_export(const Call& call, Console& console);

std::vector<FieldInfo> import_fields();
int run_import(const Call& call, Console& console);

int run_diff(const Call& call, Console& console);

std::vector<FieldInfo> weights_list_fields();
int run_weights_list(const Call& call, Console& console);

std::vector<FieldInfo> weights_get_fields();
int run_weights_get(const Call& call, Console& console);

std::vector<FieldInfo> weights_show_fields();
int run_weights_show(const Call& call, Console& console);

std::vector<FieldInfo> layer_show_fields();
int run_layer_show(const Call& call, Console& console);

std::vector<FieldInfo> data_get_fields();
int run_data_get(const Call& call, Console& console);

std::vector<FieldInfo> data_show_fields();
int run_data_show(const Call& call, Console& console);

std::vector<FieldInfo> copy_fields();
int run_copy(const Call& call, Console& console);

std::vector<FieldInfo> cloud_plan_fields();
int run_cloud_plan(const Call& call, Console& console);
std::vector<FieldInfo> cloud_create_fields();
std::vector<FieldInfo> cloud_list_fields();
std::vector<FieldInfo> cloud_resize_fields();
std::vector<FieldInfo> cloud_remove_fields();
std::vector<FieldInfo> cloud_watchdog_fields();
int run_cloud_create(const Call& call, Console& console);
int run_cloud_wait(const Call& call, Console& console);
int run_cloud_list(const Call& call, Console& console);
int run_cloud_start(const Call& call, Console& console);
int run_cloud_stop(const Call& call, Console& console);
int run_cloud_resize(const Call& call, Console& console);
int run_cloud_remove(const Call& call, Console& console);
int run_cloud_setup(const Call& call, Console& console);
int run_cloud_watchdog(const Call& call, Console& console);
std::vector<FieldInfo> cloud_prices_fields();
int run_cloud_prices(const Call& call, Console& console);

std::vector<FieldInfo> cluster_list_fields();
std::vector<FieldInfo> cluster_create_fields();
std::vector<FieldInfo> cluster_import_fields();
std::vector<FieldInfo> cluster_discover_fields();
int run_cluster_list(const Call& call, Console& console);
int run_cluster_show(const Call& call, Console& console);
int run_cluster_create(const Call& call, Console& console);
int run_cluster_default(const Call& call, Console& console);
int run_cluster_remove(const Call& call, Console& console);
int run_cluster_export(const Call& call, Console& console);
int run_cluster_import(const Call& call, Console& console);
int run_cluster_discover(const Call& call, Console& console);
std::vector<FieldInfo> cluster_validate_fields();
std::vector<FieldInfo> cluster_wait_fields();
int run_cluster_validate(const Call& call, Console& console);
int run_cluster_start(const Call& call, Console& console);
int run_cluster_stop(const Call& call, Console& console);
int run_cluster_wait(const Call& call, Console& console);
int run_host_ranks(const Call& call, Console& console);
int run_slurm_attempt(const Call& call, Console& console);

std::vector<FieldInfo> pools_fields();
int run_pools(const Call& call, Console& console);
int run_pool_close(const Call& call, Console& console);

std::vector<FieldInfo> batch_fields();
int run_batch(const Call& call, Console& console);
std::vector<FieldInfo> jobs_fields();
int run_jobs(const Call& call, Console& console);
std::vector<FieldInfo> job_show_fields();
std::vector<FieldInfo> job_wait_fields();
std::vector<FieldInfo> job_diary_fields();
std::vector<FieldInfo> job_fetch_fields();
std::vector<FieldInfo> job_attach_fields();
int run_job_show(const Call& call, Console& console);
int run_job_wait(const Call& call, Console& console);
int run_job_cancel(const Call& call, Console& console);
int run_job_delete(const Call& call, Console& console);
int run_job_requeue(const Call& call, Console& console);
int run_job_diary(const Call& call, Console& console);
int run_job_fetch(const Call& call, Console& console);
int run_job_attach(const Call& call, Console& console);
int run_job_put(const Call& call, Console& console);
std::vector<FieldInfo> queue_run_fields();
int run_queue_run(const Call& call, Console& console);
int run_queue_runner(const Call& call, Console& console);

std::vector<FieldInfo> sweep_fields();
std::vector<FieldInfo> sweep_show_fields();
std::vector<FieldInfo> sweep_watch_fields();
std::vector<FieldInfo> sweep_export_fields();
std::vector<FieldInfo> sweep_importance_fields();
std::vector<FieldInfo> sweep_fetch_fields();
int run_sweep(const Call& call, Console& console);
int run_sweep_show(const Call& call, Console& console);
int run_sweep_watch(const Call& call, Console& console);
int run_sweep_best(const Call& call, Console& console);
int run_sweep_export(const Call& call, Console& console);
int run_sweep_importance(const Call& call, Console& console);
int run_sweep_fetch(const Call& call, Console& console);
int run_sweep_files(const Call& call, Console& console);
int run_sweep_runner(const Call& call, Console& console);
std::vector<FieldInfo> sweep_trials_fields();
int run_sweep_trials(const Call& call, Console& console);
int run_sweep_check(const Call& call, Console& console);
int run_sweep_stop(const Call& call, Console& console);
int run_sweep_restart(const Call& call, Console& console);
int run_sweep_annotate(const Call& call, Console& console);

std::vector<FieldInfo> runs_fields();
int run_runs(const Call& call, Console& console);

std::vector<FieldInfo> runs_show_fields();
int run_runs_show(const Call& call, Console& console);

std::vector<FieldInfo> runs_remove_fields();
int run_runs_remove(const Call& call, Console& console);

std::vector<FieldInfo> stop_fields();
int run_stop(const Call& call, Console& console);

std::vector<FieldInfo> studio_fields();
int run_studio(const Call& call, Console& console);

std::vector<FieldInfo> run_fields();
int run_run(const Call& call, Console& console);

std::vector<FieldInfo> doctor_fields();
int run_doctor(const Call& call, Console& console);

std::vector<FieldInfo> bench_fields();
int run_bench(const Call& call, Console& console);

std::vector<FieldInfo> bench_scaling_fields();
int run_bench_scaling(const Call& call, Console& console);

std::vector<FieldInfo> bench_limits_fields();
int run_bench_limits(const Call& call, Console& console);

std::vector<FieldInfo> bench_all_reduce_fields();
int run_bench_all_reduce(const Call& call, Console& console);

std::vector<FieldInfo> bench_ranks_fields();
int run_bench_ranks(const Call& call, Console& console);

int run_completion(const Call& call, Console& console);
int run_shell_files(const Call& call, Console& console);

int run_options_markdown(const Call& call, Console& console);

}  // namespace lockstep::cli
