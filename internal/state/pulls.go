package state

import (
	"context"
	"encoding/json"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// PullRequests returns all pull requests, by link.
func (db *DB) PullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx, `SELECT known FROM pull_requests ORDER BY link`)
}

// PullStates returns all pull requests, by link, without Changed, Pages and ETags, which are long.
func (db *DB) PullStates(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx,
		`SELECT json_remove(known, '$.changed', '$.pages', '$.mapped', '$.etags') FROM pull_requests ORDER BY link`)
}

// FollowedPullRequests returns those that are not Final, by link.
func (db *DB) FollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx, `SELECT known FROM pull_requests WHERE final = 0 ORDER BY link`)
}

func (db *DB) pullRequests(ctx context.Context, query string) ([]journal.PullRequest, error) {
	rows, err := list(ctx, db, func(known *[]byte) []any { return []any{known} }, query)
	if err != nil {
		return nil, err
	}
	pulls := make([]journal.PullRequest, len(rows))
	for i, known := range rows {
		if err := json.Unmarshal(known, &pulls[i]); err != nil {
			return nil, db.wrap(ctx, err)
		}
	}
	return pulls, nil
}

// UnfollowedPullRequests returns the pull requests of jobs that are not among PullRequests, with
// link and project alone.
func (db *DB) UnfollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return list(ctx, db, func(p *journal.PullRequest) []any { return []any{&p.Link, &p.Project} }, `
		SELECT pr_link, project FROM jobs WHERE seq IN (SELECT min(seq) FROM jobs WHERE pr_link <> '' GROUP BY pr_link)
		AND pr_link NOT IN (SELECT link FROM pull_requests) ORDER BY seq`)
}

// SetPullRequests keeps the pull requests, all or none; each replaces the former one of its link.
func (db *DB) SetPullRequests(ctx context.Context, pulls ...journal.PullRequest) error {
	return db.write(ctx, func(t *tx) {
		for _, p := range pulls {
			known, err := json.Marshal(p)
			t.fail(err)
			t.exec(`INSERT OR REPLACE INTO pull_requests VALUES (?,?,?,?,?,?)`,
				p.Link, p.Project, p.State, instant{&p.Next}, p.Final, string(known))
		}
	})
}
