#include "lockstep/cli/verbs.h"

namespace lockstep::cli {

const std::vector<Verb>& builtin_verbs() {
  static const std::vector<Verb> verbs{
      {.name = "train",
       .words = "FOLDER",
       .summary = "train a network on a folder of images",
       .details = "FOLDER holds a folder of images for each class, or IDX or CIFAR binary files; or it has "
                  "sequences: a .ts file, or a folder of "
                  "CSV files for each class. All of these may also lie in a tar archive (plants.tar) or an "
                  "object store (s3://bucket/photos). Weights, curves and checkpoints "
                  "go to the run folder. Ctrl-C saves a checkpoint and stops; --resume goes on from there.",
       .fields = train_fields,
       .run = run_train,
       .joins_ranks = true},
      {.name = "plan",
       .words = "FOLDER",
       .summary = "show what train would do where, and why, without doing it",
       .details = "It takes the options of train.",
       .fields = plan_fields,
       .run = run_plan},
      {.name = "cache",
       .words = "FOLDER",
       .summary = "decode a folder's images once, for all runs that want them in this size",
       .details = "It takes the options of train. Runs with the same size, resizing, colour and decoding "
                  "find the cache by themselves in FOLDER/.lockstep-cache (of archives and object "
                  "stores in ~/.cache/lockstep/images), or in the folder that --cache names. A run makes "
                  "one in ~/.cache/lockstep/images where every epoch would decode all images again. A "
                  "cache is made anew when files are added, removed or changed.",
       .fields = cache_fields,
       .run = run_cache},
      {.name = "evaluate",
       .words = "RUN FOLDER",
       .summary = "loss, accuracy, confusions and mistakes of a trained network on labelled images",
       .details = "RUN is a run folder, or a weights file in one; or a network, built in or FILE.json, whose "
                  "weights --weights names. The figures are the same for any number of workers and ranks.",
       .fields = evaluate_fields,
       .run = run_evaluate,
       .joins_ranks = true},
      {.name = "predict",
       .words = "RUN FOLDER|FILE...",
       .summary = "labels and scores of images, or what a layer gives for them",
       .details = "RUN is a run folder, or a weights file in one; or a network, built in or FILE.json, whose "
                  "weights --weights names. Images need no class folders; where there are some, their names "
                  "are the targets.",
       .fields = predict_fields,
       .run = run_predict,
       .joins_ranks = true},
      {.name = "report",
       .words = "RUN [FOLDER]",
       .summary = "a run as one HTML page: curves, confusion matrix, classes, worst mistakes",
       .details = "The page needs nothing from elsewhere. The run is judged by the images that it held out, "
                  "or by those of FOLDER.",
       .fields = report_fields,
       .run = run_report},
      {.name = "network show",
       .words = "NAME|FILE|RUN",
       .summary = "a network's layers, connections, shapes, learnables and state",
       .details =
           "NAME is a built-in network, shown for the images that it was made for; FILE is a layer graph, "
           "FILE.json, and RUN a run folder, whose network is shown with its own input and classes.",
       .fields = network_show_fields,
       .run = run_network_show},
      {.name = "network list",
       .words = "",
       .summary = "the built-in networks",
       .details = "",
       .fields = network_list_fields,
       .run = run_network_list},
      {.name = "diff",
       .words = "RUN RUN",
       .summary = "whether two runs have the same weights, and from which step on they differ",
       .details = "RUN is a run folder or a safetensors file. The exit status is 0 for the same weights, 1 "
                  "for others, 2 after an error.",
       .fields = diff_fields,
       .run = run_diff,
       .error_status = 2},
      {.name = "copy",
       .words = "SOURCE DESTINATION",
       .summary = "copy files between folders, tar archives and object stores",
       .details = "Each is a folder, an archive (.tar, .tar.gz) or an address such as s3://bucket/photos. "
                  "Files of equal size and checksum at the destination are not copied "
                  "again, so a copy that was stopped goes on; files that only the destination has stay. An "
                  "archive is begun anew.",
       .fields = copy_fields,
       .run = run_copy},
      {.name = "run",
       .words = "PROGRAM [WORD...]",
       .summary = "start a program as several ranks on this machine, as torchrun does",
       .details = "Each process finds its rank in RANK, WORLD_SIZE and torchrun's other environment "
                  "variables; lockstep train reads them, and so does "
                  "torch.distributed. Ranks but 0 have their number before each line. When one fails the "
                  "others are ended, and it is named. -n is --ranks.",
       .fields = run_fields,
       .run = run_run,
       .starts_program = true},
      {.name = "doctor",
       .words = "",
       .summary = "what this machine has: cores, vector units, GPUs, libraries",
       .details = "It says what is missing and how to get it.",
       .fields = doctor_fields,
       .run = run_doctor},
      {.name = "bench scaling",
       .words = "FOLDER",
       .summary = "train with several numbers of workers, and compare the runs",
       .details = "It takes the options of train. The runs, a drawing, a CSV file and the table go to "
                  "--output; runs/scaling-001 and on without it. The exit status is 1 when the weights "
                  "differ.",
       .fields = bench_scaling_fields,
       .run = run_bench_scaling},
      {.name = "bench",
       .words = "[NAME...]",
       .summary = "how fast it is here, against PyTorch and the limits of the machine",
       .details =
           "Without a NAME it lists the benches. NAME is limits, all-reduce, digits_cnn, digits_cnn-bf16, "
           "lenet, "
           "wide, resnet18, resnet18-bf16, squeezenet, squeezenet-bf16 or mnist-99; all runs them all. "
           "The exit status is 1 when a figure misses its bar. PyTorch's side needs "
           "scripts/setup --peers.",
       .fields = bench_fields,
       .run = run_bench},
      {.name = "bench-limits",
       .words = "",
       .summary = "multiply-adds, matrix products and bytes a second of one core and of all",
       .details = "",
       .fields = bench_limits_fields,
       .run = run_bench_limits,
       .hidden = true},
      {.name = "bench-all-reduce",
       .words = "",
       .summary = "the time of the sum of two workers' gradients",
       .details = "",
       .fields = bench_all_reduce_fields,
       .run = run_bench_all_reduce,
       .hidden = true},
      {.name = "bench-ranks",
       .words = "",
       .summary = "the time of sums over the ranks that a launcher started",
       .details = "",
       .fields = bench_ranks_fields,
       .run = run_bench_ranks,
       .hidden = true,
       .joins_ranks = true},
      {.name = "options-markdown",
       .words = "",
       .summary = "write docs/options.md to standard output",
       .details = "",
       .fields = options_markdown_fields,
       .run = run_options_markdown,
       .hidden = true},
  };
  return verbs;
}

}  // namespace lockstep::cli
