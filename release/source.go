package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// source is a clone of the commit, in a folder of its own: it has no files that git ignores, which Go would compile all
// the same, and no tag but the version, from which Go knows it.
type source struct {
	dir    string
	commit string
	time   time.Time // of the commit; of every file in an archive
	dirty  bool      // it has changes that are in no commit
}

// openSource clones the commit that is checked out in repo. With changes in the working tree it fails, unless they are
// to be built.
func openSource(ctx context.Context, repo, dir string, v version, dirty bool) (*source, error) {
	changes, err := git(ctx, repo, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return nil, fmt.Errorf("a release is made of a commit: %w", err)
	}
	if changes != "" && !dirty {
		return nil, fmt.Errorf(
			"the working tree has changes that are in no commit:\n%s\nCommit them, or build them all the same: make release VERSION=%s DIRTY=1",
			firstLines(changes, 5), v)
	}
	s := &source{dir: dir, dirty: changes != ""}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"config", "core.autocrlf", "false"},
		{"fetch", "--quiet", "--depth=1", "--no-tags", "file://" + path.Join("/", filepath.ToSlash(repo)), "HEAD"},
		{"checkout", "--quiet", "--detach", "FETCH_HEAD"},
	} {
		if _, err := git(ctx, dir, args...); err != nil {
			return nil, err
		}
	}
	if v != "" {
		if _, err := git(ctx, dir, "update-ref", "refs/tags/"+string(v), "HEAD"); err != nil {
			return nil, err
		}
	}
	if s.commit, err = git(ctx, dir, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	seconds, err := git(ctx, dir, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return nil, err
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || unix < 315532800 { // zip knows no time before 1980
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970, of 1980 or later", seconds)
	}
	s.time = time.Unix(unix, 0).UTC()
	if s.dirty {
		return s, s.overlay(ctx, repo)
	}
	return s, nil
}

// overlay copies the working tree over the clone.
func (s *source) overlay(ctx context.Context, repo string) error {
	list, err := git(ctx, repo, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == 0 }) {
		to := filepath.Join(s.dir, filepath.FromSlash(name))
		info, err := os.Lstat(filepath.Join(repo, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			continue // as it is in the commit
		}
		content, err := os.ReadFile(filepath.Join(repo, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// functions are the files that a Cloud Function is built from: those that .gcloudignore does not exclude.
func (s *source) functions(ctx context.Context) ([]file, error) {
	ignored, err := git(ctx, s.dir, "ls-files", "-z", "--cached", "--ignored", "--exclude-from=.gcloudignore")
	if err != nil {
		return nil, err
	}
	excluded := map[string]bool{}
	for name := range strings.SplitSeq(ignored, "\x00") {
		excluded[name] = true
	}
	all, err := git(ctx, s.dir, "ls-files", "-z", "--cached")
	if err != nil {
		return nil, err
	}
	var files []file
	for name := range strings.SplitSeq(all, "\x00") {
		if name == "" || excluded[name] {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, content: content})
	}
	return files, nil
}

// whichRepository are variables that name another repository than the one in the folder. A hook has them.
var whichRepository = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX",
	"GIT_SHALLOW_FILE",
}

// git runs git and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = dir
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(whichRepository, name) {
			c.Env = append(c.Env, kv)
		}
	}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w\n%s", strings.Join(args, " "), dir, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

func firstLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	if len(lines) > n {
		lines = append(lines[:n], fmt.Sprintf("and %d more", len(lines)-n))
	}
	return strings.Join(lines, "\n")
}
