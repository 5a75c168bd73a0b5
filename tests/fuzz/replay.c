/* Where libFuzzer is not there: runs a fuzz target over the files of its corpus, once each. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		static uint8_t data[1 << 20];
		FILE *file = fopen(argv[i], "rbe");
		size_t size;

		if (!file)
			return 1;
		size = fread(data, 1, sizeof(data), file);
		fclose(file);
		LLVMFuzzerTestOneInput(data, size);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
