// SPDX-License-Identifier: Apache-2.0
// ViennaCL's own kernels, for tests/e2e/compatibility.py, which compiles it: conjugate gradients on a sparse matrix, a
// dense product, and an LU solution. Prints the result of each and its error. Ends with 1 when a result is wrong.
#define VIENNACL_WITH_OPENCL
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>
#include <viennacl/compressed_matrix.hpp>
#include <viennacl/linalg/cg.hpp>
#include <viennacl/linalg/lu.hpp>
#include <viennacl/linalg/norm_2.hpp>
#include <viennacl/linalg/prod.hpp>
#include <viennacl/matrix.hpp>
#include <viennacl/vector.hpp>

namespace {

constexpr std::size_t kGrid = 48, kUnknowns = kGrid * kGrid;  // of a Poisson problem on a square
constexpr std::size_t kOrder = 96;                            // of the dense matrices

bool Report(const char* what, double value, double error) {
  std::printf("%s %.9e, off by %.2e\n", what, value, error);
  return std::isfinite(value) && error < 1e-4;
}

bool ConjugateGradients() {
  std::vector<std::map<unsigned, double>> rows(kUnknowns);
  for (unsigned i = 0; i < kUnknowns; ++i) {
    rows[i][i] = 4;
    if (i % kGrid > 0) rows[i][i - 1] = -1;
    if (i % kGrid + 1 < kGrid) rows[i][i + 1] = -1;
    if (i >= kGrid) rows[i][i - kGrid] = -1;
    if (i + kGrid < kUnknowns) rows[i][i + kGrid] = -1;
  }
  viennacl::compressed_matrix<double> matrix(kUnknowns, kUnknowns);
  viennacl::copy(rows, matrix);
  std::vector<double> ones(kUnknowns, 1.0);
  viennacl::vector<double> right(kUnknowns);
  viennacl::copy(ones, right);
  const viennacl::vector<double> solution = viennacl::linalg::solve(matrix, right, viennacl::linalg::cg_tag(1e-9, 400));
  const viennacl::vector<double> product = viennacl::linalg::prod(matrix, solution);
  const viennacl::vector<double> residual = right - product;
  return Report("conjugate gradients:", viennacl::linalg::norm_2(solution), viennacl::linalg::norm_2(residual));
}

std::vector<std::vector<double>> Dense(double diagonal) {
  std::vector<std::vector<double>> rows(kOrder, std::vector<double>(kOrder));
  for (std::size_t i = 0; i < kOrder; ++i)
    for (std::size_t k = 0; k < kOrder; ++k)
      rows[i][k] = static_cast<double>((i * 37 + k * 11) % 17) / 17 + (i == k ? diagonal : 0);
  return rows;
}

bool DenseProduct() {
  const auto a = Dense(1), b = Dense(2);
  viennacl::matrix<double> left(kOrder, kOrder), right(kOrder, kOrder);
  viennacl::copy(a, left);
  viennacl::copy(b, right);
  const viennacl::matrix<double> made = viennacl::linalg::prod(left, right);
  std::vector<std::vector<double>> product(kOrder, std::vector<double>(kOrder));
  viennacl::copy(made, product);
  double sum = 0, error = 0;
  for (std::size_t i = 0; i < kOrder; ++i)
    for (std::size_t k = 0; k < kOrder; ++k) {
      double right_one = 0;
      for (std::size_t j = 0; j < kOrder; ++j) right_one += a[i][j] * b[j][k];
      sum += product[i][k];
      error = std::fmax(error, std::fabs(product[i][k] - right_one));
    }
  return Report("dense product:", sum, error);
}

bool LuSolution() {
  const auto a = Dense(kOrder);
  viennacl::matrix<double> matrix(kOrder, kOrder), factors(kOrder, kOrder);
  viennacl::copy(a, matrix);
  viennacl::copy(a, factors);
  std::vector<double> ones(kOrder, 1.0);
  viennacl::vector<double> right(kOrder), solution(kOrder);
  viennacl::copy(ones, right);
  viennacl::copy(ones, solution);
  viennacl::linalg::lu_factorize(factors);
  viennacl::linalg::lu_substitute(factors, solution);
  const viennacl::vector<double> product = viennacl::linalg::prod(matrix, solution);
  const viennacl::vector<double> residual = right - product;
  return Report("LU solution:", viennacl::linalg::norm_2(solution), viennacl::linalg::norm_2(residual));
}

}  // namespace

int main() {
  const bool all_right[] = {ConjugateGradients(), DenseProduct(), LuSolution()};
  return all_right[0] && all_right[1] && all_right[2] ? 0 : 1;
}
