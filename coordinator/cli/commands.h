// The command line as CLI11 sees it: each function adds verbs with their
// options to the program. When a verb was chosen, its exit code lands in
// `*exit_code`. Apart from the verbs themselves, because CLI11's header takes
// ten seconds to compile.
#pragma once

namespace CLI {
class App;
}

namespace gimbal::cli {

void AddRunCommands(CLI::App& app,
                    int* exit_code);  // train, config, plan, sweep
void AddControlCommands(CLI::App& app, int* exit_code);  // status, pause, ...
void AddDataCommands(CLI::App& app, int* exit_code);     // prepare, eval, ...
void AddDeployCommands(CLI::App& app, int* exit_code);   // slurm, doctor

}  // namespace gimbal::cli
