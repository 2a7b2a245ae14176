package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestFolderThatTheAccountCannotEnter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filepath.Dir(emptyDataDir(t)), "shop", "data")
	at := filepath.Dir(dir)
	if err := os.Mkdir(at, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at, 0o700) }) // so that the folder can be deleted
	_, err := Start(t.Context(), Config{DataDir: dir})
	assertCondition(t, err, CodeNotEnterable, 18, fmt.Sprintf("The account %q cannot enter the folder %s, so %s cannot hold "+
		`the data: choose another folder with --data, or give the account access with "chmod o+x %s".`, ownAccount(), at, dir, at))
}

func TestOwnAccountIsNeverNobody(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	write(t, dir, markerName, "")
	if ownAccount() != shared {
		return // the marker is this user's
	}
	if acc, ok := earlierOwner(Config{DataDir: dir}); !ok || acc.name != shared {
		t.Errorf("disposable data of nobody: %+v", acc)
	}
	if acc, ok := earlierOwner(Config{DataDir: dir, OwnAccount: true}); ok {
		t.Errorf("data of nobody: %+v", acc)
	}
}
