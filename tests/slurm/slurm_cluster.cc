#include "tests/slurm/slurm_cluster.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/free_port.h"

namespace gimbal::test_support {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Up in a second; a loaded machine takes longer.
constexpr seconds kStart{60};

std::string ProgramPath(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/usr/local/bin/"}) {
    if (fs::exists(folder + name)) return folder + name;
  }
  return "";
}

template <typename Condition>
bool Poll(seconds timeout, const Condition& condition) {
  const auto deadline = steady_clock::now() + timeout;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return true;
}

std::string Trim(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

}  // namespace

std::string SlurmCluster::Missing() {
  for (const char* name : {"munged", "slurmctld", "slurmd", "sbatch", "srun"}) {
    if (ProgramPath(name).empty()) {
      return std::string(name) +
             " is not installed (packages slurm-wlm and munge)";
    }
  }
  return "";
}

SlurmCluster::SlurmCluster(int nodes) : slurmds_(static_cast<size_t>(nodes)) {
  chmod(folder_.path().c_str(), 0755);  // munged asks for that
  for (const char* name : {"state", "log", "munge", "socket", "spool"}) {
    fs::create_directory(folder_ / name);
  }
  for (int i = 1; i <= nodes; ++i) {
    fs::create_directory(folder_ / ("spool/n" + std::to_string(i)));
  }
  std::ofstream key(folder_ / "munge/key", std::ios::binary);
  std::random_device random;
  for (int i = 0; i < 256; ++i) {
    const unsigned word = random();
    key.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  key.close();
  chmod((folder_ / "munge/key").c_str(), 0600);
  chmod((folder_ / "munge").c_str(), 0700);
  WriteConfig();
  setenv("SLURM_CONF", (folder_ / "slurm.conf").c_str(), 1);
  munged_ = std::make_unique<Command>(std::vector<std::string>{
      ProgramPath("munged"), "--foreground", "--force",
      "--key-file=" + (folder_ / "munge/key"),
      "--socket=" + (folder_ / "socket/munge"),
      "--pid-file=" + (folder_ / "munge/pid"),
      "--log-file=" + (folder_ / "log/munged"),
      "--seed-file=" + (folder_ / "munge/seed"), "--num-threads=2"});
  Poll(kStart, [&] { return fs::exists(folder_ / "socket/munge"); });
  slurmctld_ = std::make_unique<Command>(std::vector<std::string>{
      ProgramPath("slurmctld"), "-D", "-f", folder_ / "slurm.conf"});
  for (int i = 1; i <= nodes; ++i) StartNode(i);
}

void SlurmCluster::WriteConfig() {
  const std::string user = getpwuid(getuid())->pw_name;
  // Numbers of real ones, which nobody opens.
  has_gpus_ = true;
  for (unsigned i = 0; i < 2; ++i) {
    const std::string path = folder_ / ("gpu" + std::to_string(i));
    has_gpus_ &= mknod(path.c_str(), S_IFCHR | 0600, makedev(195, i)) == 0;
  }
  if (has_gpus_) {
    std::ofstream(folder_ / "gres.conf")
        << "Name=gpu File=" << folder_ / "gpu[0-1]"
        << "\n";
  }
  std::ofstream conf(folder_ / "slurm.conf");
  conf << "ClusterName=gimbal\nSlurmctldHost=localhost(127.0.0.1)\n"
       << "SlurmUser=" << user << "\nSlurmdUser=" << user << "\n"
       << "CommunicationParameters=NoInAddrAny\n"
       << "SlurmctldPort=" << FreePort() << "\n"
       << "AuthType=auth/munge\nAuthInfo=socket=" << folder_ / "socket/munge"
       << ",cred_expire=5\n"
       << "StateSaveLocation=" << folder_ / "state"
       << "\n"
       << "SlurmdSpoolDir=" << folder_ / "spool/%n"
       << "\n"
       << "SlurmctldPidFile=" << folder_ / "slurmctld.pid"
       << "\n"
       << "SlurmdPidFile=" << folder_ / "slurmd-%n.pid"
       << "\n"
       << "SlurmctldLogFile=" << folder_ / "log/slurmctld"
       << "\n"
       << "SlurmdLogFile=" << folder_ / "log/slurmd-%n"
       << "\n"
       << "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
       << "JobAcctGatherType=jobacct_gather/none\n"
       << "AccountingStorageType=accounting_storage/none\nMpiDefault=none\n"
       << "MailProg=/bin/true\nSelectType=select/cons_tres\n"
       << "SelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n"
       << "SchedulerParameters=batch_sched_delay=0,sched_interval=2,"
       << "bf_interval=2\nSlurmdParameters=config_overrides\n"
       << "ReturnToService=2\nSwitchType=switch/none\nKillWait=10\n"
       << "InactiveLimit=0\nMinJobAge=300\nSlurmdTimeout=10\n"
       << "SlurmctldTimeout=20\nJobRequeue=1\n"
       << (has_gpus_ ? "GresTypes=gpu\n" : "");
  for (size_t i = 1; i <= slurmds_.size(); ++i) {
    conf << "NodeName=n" << i << " NodeHostname=localhost NodeAddr=127.0.0.1 "
         << "Port=" << FreePort() << " CPUs=2 RealMemory=1000 "
         << (has_gpus_ ? "Gres=gpu:2 " : "") << "State=UNKNOWN\n";
  }
  conf << "PartitionName=main Nodes=n[1-" << slurmds_.size()
       << "] Default=YES MaxTime=INFINITE State=UP\n";
}

SlurmCluster::~SlurmCluster() {
  Slurm({"scancel", "--user=" + std::string(getpwuid(getuid())->pw_name)});
  Poll(seconds(20), [&] { return Slurm({"squeue", "-h"}).empty(); });
}

bool SlurmCluster::Ready() {
  return Poll(kStart, [&] {
    return Slurm({"sinfo", "-h", "-t", "idle", "-o", "%D"}) ==
           std::to_string(slurmds_.size());
  });
}

std::string SlurmCluster::Slurm(std::vector<std::string> argv) {
  argv[0] = ProgramPath(argv[0]);
  return Trim(Run(argv, seconds(60)).output);
}

std::string SlurmCluster::Submit(const std::string& script,
                                 const std::string& folder,
                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"sbatch", "--parsable", "--chdir=" + folder,
                                   script};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string job = Slurm(argv);
  const bool number =
      !job.empty() && job.find_first_not_of("0123456789") == std::string::npos;
  return number ? job : "";
}

std::string SlurmCluster::JobField(const std::string& job,
                                   const std::string& field) {
  std::istringstream words(Slurm({"scontrol", "-o", "show", "job", job}));
  for (std::string word; words >> word;) {
    if (word.rfind(field + "=", 0) == 0) return word.substr(field.size() + 1);
  }
  return "";
}

bool SlurmCluster::WaitForState(const std::string& job,
                                const std::string& state, seconds timeout) {
  return Poll(timeout, [&] { return JobField(job, "JobState") == state; });
}

std::string SlurmCluster::StepNamed(const std::string& job,
                                    const std::string& name) {
  std::istringstream lines(
      Slurm({"squeue", "-h", "-s", "-j", job, "-o", "%i %j"}));
  for (std::string id, found; lines >> id >> found;) {
    if (found == name) return id;
  }
  return "";
}

void SlurmCluster::StopNode(int number) {
  slurmds_[static_cast<size_t>(number - 1)].reset();
}

void SlurmCluster::StartNode(int number) {
  slurmds_[static_cast<size_t>(number - 1)] =
      std::make_unique<Command>(std::vector<std::string>{
          ProgramPath("slurmd"), "-D", "-f", folder_ / "slurm.conf", "-N",
          "n" + std::to_string(number)});
}

std::string SlurmCluster::Logs() const {
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder_ / "log")) {
    std::ifstream file(entry.path());
    std::stringstream content;
    content << file.rdbuf();
    const std::string all = content.str();
    text += "--- " + entry.path().string() + "\n" +
            all.substr(all.size() - std::min<size_t>(all.size(), 3000));
  }
  return text;
}

}  // namespace gimbal::test_support
