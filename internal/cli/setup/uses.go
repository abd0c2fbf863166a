package setup

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
)

// PrintWritten says that a file was written, and with which mode.
func PrintWritten(a *console.Console, path string) error {
	info, err := os.Stat(path)
	if err == nil {
		_, err = fmt.Fprintf(a.Out, "wrote %s (mode %04o)\n", path, info.Mode().Perm())
	}
	return err
}

// NotWritten says that the file of settings is not written because something failed, and returns the error
// of a command that has reported everything.
func (o *Options) NotWritten(a *console.Console) error {
	fmt.Fprintf(a.Err, "docgauge: %s is not written; correct what failed and run init again, or add --no-check\n", o.Path)
	return render.ErrReported
}

// PrintUses prints commands, and the lines for cron and systemd, that use the file.
func PrintUses(a *console.Console, path string) error {
	self, remark, err := ProgramPath()
	if err != nil {
		return err
	}
	if remark != "" {
		fmt.Fprintf(a.Out, "This program %s. To keep it, install it, and write\nits new path in the lines below:\n"+
			"  sudo install %s /usr/local/bin/\n\n", remark, render.ShellWord(self))
	}
	fmt.Fprintf(a.Out, `Try it, from any directory:
  docgauge --env-file %[1]s export
  docgauge --env-file %[1]s top
  docgauge --env-file %[1]s status

Every hour, with cron (crontab -e):
  17 * * * *  %[2]s --quiet --env-file %[3]s export >/dev/null

`, render.ShellWord(path), render.CronWord(self), render.CronWord(path))
	return PrintUnit(a, "docgauge", path, "serve")
}

// PrintUnit prints the unit of systemd that runs a command with the file.
func PrintUnit(a *console.Console, name, path, command string) error {
	self, _, err := ProgramPath()
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, `Or as a daemon, with systemd (/etc/systemd/system/%s.service):
  [Service]
  ExecStart=%s --env-file %s %s
  User=%s
  Restart=on-failure
  RestartPreventExitStatus=2 3
  [Install]
  WantedBy=multi-user.target

`, name, render.SystemdWord(self), render.SystemdWord(path), command, me.Username)
	return err
}

// ProgramPath is the path of this program, as PATH has it if it does: a link outlives an upgrade. The
// remark says why that path may not last.
func ProgramPath() (path, remark string, err error) {
	if path, err = os.Executable(); err != nil {
		return "", "", err
	}
	self, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	found, err := exec.LookPath("docgauge")
	if info, statErr := os.Stat(found); err != nil || statErr != nil || !os.SameFile(info, self) {
		remark = "is not in a directory of your PATH"
	} else if path, err = filepath.Abs(found); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "..", "go.mod")); err == nil {
		remark = "is in the folder of a build"
	}
	return path, remark, nil
}
