#include "lockstep/cli/verbs.h"

namespace lockstep::cli {

// A command without .run needs LibTorch: its function is in engine.cpp.
const std::vector<Verb>& builtin_verbs() {
  static const std::vector<Verb> verbs{
      {.name = "train",
       .words = "FOLDER",
       .summary = "train a network on a folder of images",
       .details = "FOLDER contains a folder of images for each class, or IDX or CIFAR binary files, or "
                  "sequences: a .ts file, or a folder of CSV files for each class. Instead of a folder, name "
                  "a tar archive (plants.tar) or an object store (s3://bucket/photos). Weights, curves and "
                  "checkpoints are written to the run folder. Ctrl-C saves a checkpoint and stops; --resume "
                  "continues from it.",
       .fields = train_fields,
       .joins_ranks = true},
      {.name = "plan",
       .words = "FOLDER",
       .summary = "show what train would do, on which device, and why",
       .details = "The options are those of train. Nothing is trained or written.",
       .fields = plan_fields},
      {.name = "cache",
       .words = "FOLDER",
       .summary = "decode a folder's images once and keep them for later runs",
       .details =
           "The options are those of train. The cache is in FOLDER/.lockstep-cache (for archives and "
           "object stores in ~/.cache/lockstep/images), or in the folder that --cache names. Every "
           "run with the same image size, resizing, colour and decoding uses it. When files are added, "
           "removed or changed, the cache is no longer used; repeat this command. A run creates a cache "
           "in ~/.cache/lockstep/images when it would otherwise decode all images in every epoch.",
       .fields = cache_fields},
      {.name = "evaluate",
       .words = "RUN FOLDER",
       .summary = "measure a trained network on labelled images",
       .details =
           "The output is loss, accuracy, top-5 accuracy (for 10 classes or more), macro F1, precision and "
           "recall of each class, and the confusion matrix. RUN is a run "
           "folder, or a weights file in one. It can also be a network, built in or FILE.json, with weights "
           "from --weights. The results are the same for any number of workers and ranks.",
       .fields = evaluate_fields,
       .joins_ranks = true},
      {.name = "predict",
       .words = "RUN FOLDER|FILE...",
       .summary = "write labels and scores of images, or the outputs of a layer",
       .details =
           "RUN is a run folder, or a weights file in one. It can also be a network, built in or "
           "FILE.json, with weights from --weights. The images need no class folders. The target of an "
           "image is the name of its folder, if that is a class.",
       .fields = predict_fields,
       .joins_ranks = true},
      {.name = "report",
       .words = "RUN [FOLDER]",
       .summary = "write one HTML page about a run: curves, confusion matrix, classes, worst mistakes",
       .details = "The page is one file and loads nothing else. It evaluates the run on its test "
                  "images (--test), otherwise on those that it held out, or on the images of FOLDER.",
       .fields = report_fields},
      {.name = "network show",
       .words = "NAME|FILE|RUN",
       .summary = "show a network's layers, connections, shapes, learnables and state",
       .details =
           "NAME is a built-in network, shown with the input that it was designed for. FILE is a layer "
           "graph, FILE.json. RUN is a run folder, whose network is shown with its own input and "
           "classes. Learnables are trainable parameters, and state is running statistics.",
       .fields = network_show_fields},
      {.name = "network list",
       .words = "",
       .summary = "list the built-in networks",
       .details = "",
       .fields = no_fields},
      {.name = "export",
       .words = "RUN|NETWORK FILE",
       .summary = "write a network for other programs: ONNX, PyTorch or C++ code, weights, layer graph",
       .details =
           "The end of FILE's name says what is written: .onnx (layers and weights), .safetensors (weights "
           "with PyTorch's names), .py (PyTorch code) and .cpp (C++ code on LibTorch) that build the same "
           "network, or .json (layer graph). RUN is a run folder, or a weights file in one. NETWORK is built "
           "in or FILE.json, with weights from --weights.",
       .fields = export_fields},
      {.name = "import",
       .words = "FILE.onnx",
       .summary = "read an ONNX file as a layer graph and weights",
       .details =
           "It writes NAME.json and NAME.safetensors, and NAME.classes.txt if the file has class names. "
           "Operators that are no layers of Lockstep are listed with the reasons.",
       .fields = import_fields},
      {.name = "weights list",
       .words = "",
       .summary = "list the published weights of built-in networks",
       .details = "Accuracy and top-5 are those on the validation images of ImageNet, as torchvision lists "
                  "them. They are kept in ~/.cache/lockstep/weights, or below $LOCKSTEP_CACHE.",
       .fields = weights_list_fields,
       .run = run_weights_list},
      {.name = "weights get",
       .words = "NETWORK...",
       .summary = "download published weights for train --pretrained",
       .details = "The output is the path of each file. Files come from torchvision's address, or from "
                  "--mirror, and are compared with the hash in their names. What is in the cache already is "
                  "not downloaded again, and an interrupted download continues.",
       .fields = weights_get_fields,
       .run = run_weights_get},
      {.name = "data get",
       .words = "NAME [FOLDER]",
       .summary = "download well-known data: mnist, fashion-mnist or cifar10",
       .details = "FOLDER is where the data are kept (default: ~/.cache/lockstep/data/NAME, or below "
                  "$LOCKSTEP_CACHE). Files are compared with their SHA-256. What is there already is not "
                  "downloaded again, and an interrupted download continues.",
       .fields = data_get_fields,
       .run = run_data_get},
      {.name = "diff",
       .words = "RUN RUN",
       .summary = "compare the weights of two runs, and find the first step that differs",
       .details = "RUN is a run folder or a safetensors file. The exit status is 0 if the weights are the "
                  "same, 1 if they differ, and 2 after an error.",
       .fields = no_fields,
       .error_status = 2},
      {.name = "runs show",
       .words = "RUN",
       .summary = "show everything about one run, and how to go on with it",
       .details = "It needs only the run folder, also one that another program has written.",
       .fields = runs_show_fields,
       .run = run_runs_show},
      {.name = "runs remove",
       .words = "RUN...",
       .summary = "remove runs with their weights, after a question",
       .details =
           "Only the files of a run are removed; other files in its folder stay. A run that is going on, a "
           "link, and a folder that is not a run's are refused.",
       .fields = runs_remove_fields,
       .run = run_runs_remove},
      {.name = "runs",
       .words = "[ROOT...]",
       .summary = "list runs: state, network, data, accuracy, time, age and size",
       .details =
           "ROOT is a folder that has runs at any depth (default: runs, or the working folder without one). "
           "A run that does not go on is shown with the reason. Folders whose names begin with a point are "
           "left out. What was read of runs that are over is kept in ~/.cache/lockstep/runs.",
       .fields = runs_fields,
       .run = run_runs},
      {.name = "stop",
       .words = "RUN...",
       .summary = "ask runs to stop with a checkpoint, to finish, or to save",
       .details =
           "RUN is the folder of a run that is going on, on this machine or on another one that shares the "
           "disk. The run answers between two steps. Only the owner of the folder can ask. The exit status "
           "is 1 if a run is not going on.",
       .fields = stop_fields,
       .run = run_stop},
      {.name = "studio",
       .words = "[ROOT...]",
       .summary = "show runs live in a browser, steer them, and draw networks",
       .details =
           "Studio is a web server on this machine. It lists the runs below each ROOT (default: runs, or "
           "this "
           "folder if there is no runs), prints an address that contains a secret token, and opens the "
           "browser. Runs go on when it ends. It writes nothing into a run but requests, and starts work "
           "only "
           "with commands, which it shows.",
       .fields = studio_fields},
      {.name = "cloud plan",
       .words = "aws",
       .summary = "show a cluster of GPU machines and its price; nothing is started",
       .details = "No network is used. Prices are of early 2026, unless --prices names "
                  "others. The time of the training is given (--hours), or forecast by lockstep plan "
                  "(--forecast).",
       .fields = cloud_plan_fields,
       .run = run_cloud_plan},
      {.name = "cloud prices",
       .words = "",
       .summary = "list the types of machines and their prices",
       .details = "",
       .fields = cloud_prices_fields,
       .run = run_cloud_prices},
      {.name = "cluster list",
       .words = "",
       .summary = "list the profiles: where jobs can run",
       .details = "A star marks the default. local is this machine and always there.",
       .fields = cluster_list_fields,
       .run = run_cluster_list},
      {.name = "cluster show",
       .words = "[NAME]",
       .summary = "show a profile, and its machines with their state, cores and GPUs",
       .details = "Without a NAME it is the default profile.",
       .fields = cluster_list_fields,
       .run = run_cluster_show},
      {.name = "cluster create",
       .words = "NAME",
       .summary = "make a profile, or replace it",
       .details = "It is a file of JSON in ~/.config/lockstep/clusters. A project can have profiles too, in "
                  ".lockstep/clusters; they hide yours of the same name.",
       .fields = cluster_create_fields,
       .run = run_cluster_create},
      {.name = "cluster default",
       .words = "[NAME]",
       .summary = "choose the default profile, or print it",
       .details = "",
       .fields = no_fields,
       .run = run_cluster_default},
      {.name = "cluster remove",
       .words = "NAME",
       .summary = "remove one of your profiles",
       .details = "",
       .fields = no_fields,
       .run = run_cluster_remove},
      {.name = "cluster export",
       .words = "NAME [FILE]",
       .summary = "write a profile to a file, or to standard output",
       .details = "Secrets are only named in it.",
       .fields = no_fields,
       .run = run_cluster_export},
      {.name = "cluster import",
       .words = "FILE",
       .summary = "take a profile from a file",
       .details = "",
       .fields = cluster_import_fields,
       .run = run_cluster_import},
      {.name = "cluster discover",
       .words = "",
       .summary = "find this machine and the Slurm that it is on",
       .details = "",
       .fields = cluster_discover_fields,
       .run = run_cluster_discover},
      {.name = "batch",
       .words = "[COMMAND...]",
       .summary = "put a command into the queue; it runs without you",
       .details = "COMMAND is a command of Lockstep, such as train photos, or any program. Options before it "
                  "are those of "
                  "batch; -- may stand between. The output is the number of the job. The queue of this "
                  "machine needs no "
                  "server: jobs go on when their terminal is closed, and training that was killed continues "
                  "from its last "
                  "checkpoint at the next jobs, batch or queue run. A job keeps everything in a folder below "
                  "~/lockstep-jobs, or below $LOCKSTEP_JOBS.",
       .fields = batch_fields,
       .run = run_batch,
       .starts_program = true},
      {.name = "jobs",
       .words = "",
       .summary = "list jobs: state, progress, accuracy, time and time left",
       .details = "It also starts jobs that may start, and settles those that a crash has left.",
       .fields = jobs_fields,
       .run = run_jobs},
      {.name = "job show",
       .words = "JOB",
       .summary = "show everything about a job",
       .details = "JOB is a number or a name. The values and files that the job has put out are shown too.",
       .fields = job_show_fields,
       .run = run_job_show},
      {.name = "job wait",
       .words = "JOB...",
       .summary = "wait until jobs are over",
       .details = "The exit status is 0 if all ended well, else that of the first one that did not.",
       .fields = job_wait_fields,
       .run = run_job_wait},
      {.name = "job attach",
       .words = "JOB",
       .summary = "show the live progress of a job as if it ran here",
       .details =
           "Ctrl-C detaches, and the job goes on. For a program that is no training it shows the diary.",
       .fields = job_attach_fields,
       .run = run_job_attach},
      {.name = "job diary",
       .words = "JOB",
       .summary = "print what a job has written",
       .details = "",
       .fields = job_diary_fields,
       .run = run_job_diary},
      {.name = "job fetch",
       .words = "JOB [FOLDER]",
       .summary = "copy a job's results into a folder",
       .details = "These are weights, curves and the other files of its run, its diary, and the values and "
                  "files that it "
                  "has put out. FOLDER is job-JOB if none is named.",
       .fields = job_fetch_fields,
       .run = run_job_fetch},
      {.name = "job cancel",
       .words = "JOB...",
       .summary = "end jobs, and take waiting ones from the queue",
       .details = "Training saves a checkpoint first. What does not end within 20 seconds is killed.",
       .fields = no_fields,
       .run = run_job_cancel},
      {.name = "job requeue",
       .words = "JOB...",
       .summary = "start jobs again that are over",
       .details = "Training continues from its last checkpoint.",
       .fields = no_fields,
       .run = run_job_requeue},
      {.name = "job delete",
       .words = "JOB...",
       .summary = "remove jobs that are over, with their folders",
       .details = "A run that was written elsewhere (--output) stays.",
       .fields = no_fields,
       .run = run_job_delete},
      {.name = "job put",
       .words = "NAME VALUE|FILE",
       .summary = "in a job: put out a value or a file",
       .details = "job show and job fetch give it to whoever looks at the job. The values progress (from 0 "
                  "to 1) and accuracy are shown by jobs.",
       .fields = no_fields,
       .run = run_job_put},
      {.name = "queue run",
       .words = "",
       .summary = "start waiting jobs of this machine, and set its limits",
       .details = "It returns at once. As @reboot lockstep queue run in a crontab it continues jobs after a "
                  "restart.",
       .fields = queue_run_fields,
       .run = run_queue_run},
      {.name = "copy",
       .words = "SOURCE DESTINATION",
       .summary = "copy files between folders, tar archives and object stores",
       .details = "SOURCE and DESTINATION are each a folder, an archive (.tar, .tar.gz) or an address such "
                  "as s3://bucket/photos. A file whose size and checksum are the same at the destination is "
                  "not copied again, so an interrupted copy continues. Files that only the destination has "
                  "are kept. An archive is always written from the beginning.",
       .fields = copy_fields,
       .run = run_copy},
      {.name = "run",
       .words = "PROGRAM [WORD...]",
       .summary = "start a program as several ranks on this machine, as torchrun does",
       .details =
           "Each process finds its rank in RANK, WORLD_SIZE and the other environment variables of "
           "torchrun; lockstep train and torch.distributed read them. Lines of other ranks than 0 "
           "begin with the rank. If a rank fails, the others are stopped and the failed rank is named. "
           "Options before PROGRAM are those of lockstep run, options after it are the program's. -n means "
           "--ranks.",
       .fields = run_fields,
       .starts_program = true},
      {.name = "doctor",
       .words = "",
       .summary = "show what this machine has: cores, vector units, GPUs, libraries",
       .details = "It lists what is missing and how to get it.",
       .fields = doctor_fields},
      {.name = "bench scaling",
       .words = "FOLDER",
       .summary = "train with several numbers of workers, and compare the runs",
       .details =
           "The options are those of train. The runs, a chart (SVG), a CSV file and the table are written "
           "to --output (default: runs/scaling-001 and so on). The exit status is 1 if the weights "
           "differ.",
       .fields = bench_scaling_fields},
      {.name = "bench",
       .words = "[NAME...]",
       .summary = "compare Lockstep's speed with PyTorch and the limits of the machine",
       .details = "Without a NAME it lists the benchmarks. NAME is limits, all-reduce, digits_cnn, "
                  "digits_cnn-bf16, lenet, wide, resnet18, resnet18-bf16, squeezenet, squeezenet-bf16 or "
                  "mnist-99; all runs all of them. The exit status is 1 if a result misses its target. The "
                  "comparison with PyTorch needs scripts/setup --peers.",
       .fields = bench_fields,
       .run = run_bench},
      {.name = "completion",
       .words = "bash|zsh|fish",
       .summary = "write a script with which a shell completes commands and options",
       .details =
           "Packages install these scripts. Without a package, read it at the start of a shell: in bash "
           "source <(lockstep completion bash), in zsh source <(lockstep completion zsh) after compinit, "
           "in fish lockstep completion fish | source.",
       .fields = no_fields,
       .run = run_completion},
      {.name = "queue-runner",
       .words = "FOLDER",
       .summary = "run jobs of the queue until none may start",
       .details = "",
       .fields = no_fields,
       .run = run_queue_runner,
       .hidden = true},
      {.name = "shell-files",
       .words = "FOLDER",
       .summary = "write the man pages, and the completions of all shells, into a folder",
       .details = "",
       .fields = no_fields,
       .run = run_shell_files,
       .hidden = true},
      {.name = "bench-limits",
       .words = "",
       .summary = "measure multiply-adds, matrix products and bytes per second, on one core and on all",
       .details = "",
       .fields = bench_limits_fields,
       .hidden = true},
      {.name = "bench-all-reduce",
       .words = "",
       .summary = "measure the time to sum the gradients of two workers",
       .details = "",
       .fields = bench_all_reduce_fields,
       .hidden = true},
      {.name = "bench-ranks",
       .words = "",
       .summary = "measure the time of sums over the ranks that a launcher started",
       .details = "",
       .fields = bench_ranks_fields,
       .hidden = true,
       .joins_ranks = true},
      {.name = "options-markdown",
       .words = "",
       .summary = "write docs/options.md to standard output",
       .details = "",
       .fields = no_fields,
       .hidden = true},
  };
  return verbs;
}

}  // namespace lockstep::cli
