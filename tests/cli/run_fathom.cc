#include "tests/cli/run_fathom.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace fathom {
namespace {

struct Pipe {
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
  }
  int ends[2];
};

[[noreturn]] void become_fathom(const std::vector<std::string>& arguments, int in, int out, int err,
                                const RunOptions& options) {
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  if (options.without_stdin) close(STDIN_FILENO);
  if (options.interrupt_pending) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, nullptr);
    raise(SIGINT);
  }
  std::vector<char*> argv = {const_cast<char*>("fathom")};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  execv(FATHOM_BINARY, argv.data());
  _exit(127);
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whether `process` handles SIGINT and has had `seconds` of processor time.
bool at_work(pid_t process, double seconds) {
  const std::string directory = "/proc/" + std::to_string(process);
  const std::string status = text_of(directory + "/status");
  const size_t caught = status.find("SigCgt:");
  if (caught == std::string::npos) return false;
  if ((std::stoull(status.substr(caught + 7), nullptr, 16) >> (SIGINT - 1) & 1) == 0) return false;
  // After the name in brackets: fields 3 and on; utime and stime are the 14th and 15th.
  const std::string stat = text_of(directory + "/stat");
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 2, stat.size())));
  std::string field;
  for (int i = 3; i < 14; ++i) fields >> field;
  double user = 0, system = 0;
  fields >> user >> system;
  return user + system >= seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

Finished run_fathom(const std::vector<std::string>& arguments, const RunOptions& options) {
  Pipe in, out, err;
  int child_out = out.ends[1];
  if (!options.stdout_path.empty()) child_out = open(options.stdout_path.c_str(), O_WRONLY | O_CLOEXEC);
  if (options.close_stdout) close(out.ends[0]);
  const pid_t child = fork();
  if (child == 0) become_fathom(arguments, in.ends[0], child_out, err.ends[1], options);
  close(in.ends[0]);
  close(out.ends[1]);
  close(err.ends[1]);
  if (!options.stdout_path.empty()) close(child_out);
  signal(SIGPIPE, SIG_IGN);
  fcntl(in.ends[1], F_SETFL, O_NONBLOCK);

  Finished result;
  std::string_view input = options.input;
  pollfd fds[3] = {{options.close_stdout ? -1 : out.ends[0], POLLIN, 0},
                   {err.ends[0], POLLIN, 0},
                   {in.ends[1], POLLOUT, 0}};
  std::string* texts[2] = {&result.out, &result.err};
  const bool by_processor = options.interrupt_after_processor >= 0;
  bool signalled = options.interrupt_after < 0 && !by_processor;
  const auto start = std::chrono::steady_clock::now();
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (fds[2].fd >= 0 && input.empty()) {
      close(fds[2].fd);
      fds[2].fd = -1;
    }
    poll(fds, 3, signalled ? -1 : 20);
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(fds[i].fd, buffer, sizeof(buffer));
      if (got > 0) {
        texts[i]->append(buffer, static_cast<size_t>(got));
      } else {
        close(fds[i].fd);
        fds[i].fd = -1;
      }
    }
    if (fds[2].fd >= 0 && fds[2].revents != 0) {
      const ssize_t put = write(fds[2].fd, input.data(), input.size());
      input.remove_prefix(put > 0 ? static_cast<size_t>(put) : input.size());
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const bool due = by_processor ? at_work(child, options.interrupt_after_processor)
                                  : !result.out.empty() && passed.count() >= options.interrupt_after;
    if (!signalled && due) {
      kill(child, SIGINT);
      signalled = true;
    }
  }
  if (fds[2].fd >= 0) close(fds[2].fd);
  int status = 0;
  waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace fathom
