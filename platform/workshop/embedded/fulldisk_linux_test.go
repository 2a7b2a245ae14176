package embedded

import (
	"path/filepath"
	"testing"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	_ = emptyDataDir(t) // as the tests' account
	if smallDisk == "" {
		return
	}
	dir := filepath.Join(smallDisk, "data")
	_, err := Start(t.Context(), Config{DataDir: dir, minFree: 1})
	assertCondition(t, err, CodeDiskFull, 16, "The disk that holds "+dir+" is full: free some space, or choose another folder with --data.")
}
